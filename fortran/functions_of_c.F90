! tessera.h as Fortran sees it: what the module tessera calls.
module tessera_functions_of_c
   use, intrinsic :: iso_c_binding
   implicit none
   public

   type, bind(c) :: grid_type
      integer(c_int) :: rank
      type(c_ptr) :: tiles, sizes
   end type
   type, bind(c) :: placement_type
      type(c_ptr) :: comm, maps, sides
   end type
   type, bind(c) :: bounds_type
      character(kind=c_char) :: label
      integer(c_int64_t) :: lo, hi
   end type
   type, bind(c) :: options_type
      complex(c_double_complex) :: alpha, beta
      integer(c_int) :: conjugate_a, conjugate_b
      real(c_double) :: filter
      integer(c_int) :: n_bounds
      type(c_ptr) :: bounds
      integer(c_int) :: threads
      integer(c_int64_t) :: memory
      integer(c_int) :: n_devices
      type(c_ptr) :: devices
      integer(c_int64_t) :: device_memory
      integer(c_int) :: retain_sparsity
   end type
   type, bind(c) :: report_type
      real(c_double) :: left_out, flops, plan_seconds, execute_seconds
      integer(c_int64_t) :: products, dropped_tiles, sent_bytes, peak_host_bytes
      integer(c_int) :: threads, ranks
   end type

   interface
      function c_message() bind(c, name="tessera_message") result(text)
         import
         type(c_ptr) :: text
      end function
      pure function c_strlen(text) bind(c, name="strlen") result(n)
         import
         type(c_ptr), value :: text
         integer(c_size_t) :: n
      end function
      subroutine c_options_init(options) bind(c, name="tessera_options_init")
         import
         type(options_type), intent(out) :: options
      end subroutine
      function c_comm_from_mpi(handle, comm) bind(c, name="tessera_comm_from_mpi") result(error)
         import
         integer(c_int), value :: handle
         type(c_ptr), intent(out) :: comm
         integer(c_int) :: error
      end function
      function c_comm_size(comm, n) bind(c, name="tessera_comm_size") result(error)
         import
         type(c_ptr), value :: comm
         integer(c_int), intent(out) :: n
         integer(c_int) :: error
      end function
      function c_comm_destroy(comm) bind(c, name="tessera_comm_destroy") result(error)
         import
         type(c_ptr), value :: comm
         integer(c_int) :: error
      end function
      function c_create(kind, grid, placement, tensor) bind(c, name="tessera_create") result(error)
         import
         integer(c_int), value :: kind
         type(grid_type), intent(in) :: grid
         type(placement_type), intent(in) :: placement
         type(c_ptr), intent(out) :: tensor
         integer(c_int) :: error
      end function
      function c_copy(tensor, other) bind(c, name="tessera_copy") result(error)
         import
         type(c_ptr), value :: tensor
         type(c_ptr), intent(out) :: other
         integer(c_int) :: error
      end function
      function c_destroy(tensor) bind(c, name="tessera_destroy") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int) :: error
      end function
      function c_type(tensor, kind) bind(c, name="tessera_type") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int), intent(out) :: kind
         integer(c_int) :: error
      end function
      function c_rank(tensor, n) bind(c, name="tessera_rank") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int), intent(out) :: n
         integer(c_int) :: error
      end function
      function c_tiles_along(tensor, idx, n) bind(c, name="tessera_tiles_along") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int), value :: idx
         integer(c_int64_t), intent(out) :: n
         integer(c_int) :: error
      end function
      function c_tile_sizes(tensor, idx, sizes) bind(c, name="tessera_tile_sizes") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int), value :: idx
         integer(c_int64_t), intent(inout) :: sizes(*)
         integer(c_int) :: error
      end function
      function c_tile_count(tensor, n) bind(c, name="tessera_tile_count") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int64_t), intent(out) :: n
         integer(c_int) :: error
      end function
      function c_element_count(tensor, n) bind(c, name="tessera_element_count") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int64_t), intent(out) :: n
         integer(c_int) :: error
      end function
      function c_owner(tensor, tile, n) bind(c, name="tessera_owner") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int64_t), intent(in) :: tile(*)
         integer(c_int), intent(out) :: n
         integer(c_int) :: error
      end function
      function c_tile(tensor, slot, tile, extents, norm, elements) bind(c, name="tessera_tile") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int64_t), value :: slot
         type(c_ptr), value :: tile
         type(c_ptr), value :: extents
         type(c_ptr), value :: norm
         type(c_ptr), intent(out) :: elements
         integer(c_int) :: error
      end function
      function c_find_tile(tensor, tile, slot) bind(c, name="tessera_find_tile") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int64_t), intent(in) :: tile(*)
         integer(c_int64_t), intent(out) :: slot
         integer(c_int) :: error
      end function
      function c_builder_create_like(tensor, memory, builder) bind(c, name="tessera_builder_create_like") result(error)
         import
         type(c_ptr), value :: tensor
         integer(c_int64_t), value :: memory
         type(c_ptr), intent(out) :: builder
         integer(c_int) :: error
      end function
      function c_builder_destroy(builder) bind(c, name="tessera_builder_destroy") result(error)
         import
         type(c_ptr), value :: builder
         integer(c_int) :: error
      end function
      function c_reserve(builder, tile) bind(c, name="tessera_reserve") result(error)
         import
         type(c_ptr), value :: builder
         integer(c_int64_t), intent(in) :: tile(*)
         integer(c_int) :: error
      end function
      function c_add(builder, tile, elements) bind(c, name="tessera_add") result(error)
         import
         type(c_ptr), value :: builder
         integer(c_int64_t), intent(in) :: tile(*)
         type(c_ptr), value :: elements
         integer(c_int) :: error
      end function
      function c_put(builder, tile, elements) bind(c, name="tessera_put") result(error)
         import
         type(c_ptr), value :: builder
         integer(c_int64_t), intent(in) :: tile(*)
         type(c_ptr), value :: elements
         integer(c_int) :: error
      end function
      function c_finalize(builder, threads, tensor) bind(c, name="tessera_finalize") result(error)
         import
         type(c_ptr), value :: builder
         integer(c_int), value :: threads
         type(c_ptr), intent(out) :: tensor
         integer(c_int) :: error
      end function
      function c_finalize_into(builder, threads, tensor) bind(c, name="tessera_finalize_into") result(error)
         import
         type(c_ptr), value :: builder
         integer(c_int), value :: threads
         type(c_ptr), value :: tensor
         integer(c_int) :: error
      end function
      function c_contract_into(spec, a, b, c, options, report) bind(c, name="tessera_contract_into") result(error)
         import
         character(kind=c_char), intent(in) :: spec(*)
         type(c_ptr), value :: a
         type(c_ptr), value :: b
         type(c_ptr), value :: c
         type(options_type), intent(in) :: options
         type(report_type), intent(out) :: report
         integer(c_int) :: error
      end function
      function c_batch_create(spec, c, options, batch) bind(c, name="tessera_batch_create") result(error)
         import
         character(kind=c_char), intent(in) :: spec(*)
         type(c_ptr), value :: c
         type(options_type), intent(in) :: options
         type(c_ptr), intent(out) :: batch
         integer(c_int) :: error
      end function
      function c_batch_add(batch, a, b, n, bounds) bind(c, name="tessera_batch_add") result(error)
         import
         type(c_ptr), value :: batch
         type(c_ptr), value :: a
         type(c_ptr), value :: b
         integer(c_int), value :: n
         type(c_ptr), value :: bounds
         integer(c_int) :: error
      end function
      function c_batch_finish(batch, filter, report) bind(c, name="tessera_batch_finish") result(error)
         import
         type(c_ptr), value :: batch
         real(c_double), value :: filter
         type(report_type), intent(out) :: report
         integer(c_int) :: error
      end function
      function c_batch_destroy(batch) bind(c, name="tessera_batch_destroy") result(error)
         import
         type(c_ptr), value :: batch
         integer(c_int) :: error
      end function
      function c_permute(x, order, y) bind(c, name="tessera_permute") result(error)
         import
         type(c_ptr), value :: x
         integer(c_int), intent(in) :: order(*)
         type(c_ptr), intent(out) :: y
         integer(c_int) :: error
      end function
      function c_retile(x, grid, y) bind(c, name="tessera_retile") result(error)
         import
         type(c_ptr), value :: x
         type(grid_type), intent(in) :: grid
         type(c_ptr), intent(out) :: y
         integer(c_int) :: error
      end function
      function c_slice(x, lo, hi, y) bind(c, name="tessera_slice") result(error)
         import
         type(c_ptr), value :: x
         integer(c_int64_t), intent(in) :: lo(*)
         integer(c_int64_t), intent(in) :: hi(*)
         type(c_ptr), intent(out) :: y
         integer(c_int) :: error
      end function
      function c_assign_slice(x, lo, hi, y) bind(c, name="tessera_assign_slice") result(error)
         import
         type(c_ptr), value :: x
         integer(c_int64_t), intent(in) :: lo(*)
         integer(c_int64_t), intent(in) :: hi(*)
         type(c_ptr), value :: y
         integer(c_int) :: error
      end function
      function c_scale(x, factor) bind(c, name="tessera_scale") result(error)
         import
         type(c_ptr), value :: x
         complex(c_double_complex), intent(in) :: factor
         integer(c_int) :: error
      end function
      function c_axpy(alpha, x, y) bind(c, name="tessera_axpy") result(error)
         import
         complex(c_double_complex), intent(in) :: alpha
         type(c_ptr), value :: x
         type(c_ptr), value :: y
         integer(c_int) :: error
      end function
      function c_norm(x, value) bind(c, name="tessera_norm") result(error)
         import
         type(c_ptr), value :: x
         real(c_double), intent(out) :: value
         integer(c_int) :: error
      end function
      function c_filter(x, threshold, y) bind(c, name="tessera_filter") result(error)
         import
         type(c_ptr), value :: x
         real(c_double), value :: threshold
         type(c_ptr), intent(out) :: y
         integer(c_int) :: error
      end function
      function c_checksum(x, value) bind(c, name="tessera_checksum") result(error)
         import
         type(c_ptr), value :: x
         integer(c_int64_t), intent(out) :: value
         integer(c_int) :: error
      end function
      function c_write(path, x) bind(c, name="tessera_write") result(error)
         import
         character(kind=c_char), intent(in) :: path(*)
         type(c_ptr), value :: x
         integer(c_int) :: error
      end function
      function c_read(path, comm, x) bind(c, name="tessera_read") result(error)
         import
         character(kind=c_char), intent(in) :: path(*)
         type(c_ptr), value :: comm
         type(c_ptr), intent(out) :: x
         integer(c_int) :: error
      end function
   end interface

end module
