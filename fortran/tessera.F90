! Block-sparse tensors over MPI ranks from Fortran, on tessera.h. Names and arguments are those that users of DBCSR's tensors
! (dbcsr_t_*) know. docs/C.md says what differs.
!
! Indices and blocks are numbered from 1, arrays are column-major as ever: a tensor here is one of Tessera with its indices
! in the opposite order, and no element moves for that. A failure prints its line and stops the program.
module tessera
   use, intrinsic :: iso_c_binding
   use, intrinsic :: iso_fortran_env, only: error_unit
   use tessera_functions_of_c
   implicit none
   private

   integer, parameter, public :: tessera_type_real_4 = 0, tessera_type_real_8 = 1
   integer, parameter, public :: tessera_type_complex_4 = 2, tessera_type_complex_8 = 3

   ! Grids of one communicator of MPI share its ranks here: tensors on both can be contracted.
   type :: comm_type
      integer :: mp_comm = 0, grids = 0
      type(c_ptr) :: comm = c_null_ptr
   end type
   type(comm_type), allocatable, save :: comms(:)

   !> Ranks as a grid of so many along each index.
   type, public :: tessera_t_pgrid_type
      private
      type(c_ptr) :: comm = c_null_ptr
      integer, allocatable, public :: dims(:)
   end type

   type :: list_type
      integer, allocatable :: values(:)
   end type

   !> Which coordinate of the grid of ranks each block has, along each index.
   type, public :: tessera_t_distribution_type
      private
      type(c_ptr) :: comm = c_null_ptr
      integer, allocatable :: dims(:)
      type(list_type), allocatable :: coordinates(:)
   end type

   !> A tensor. It is not to be copied by assignment: tessera_t_copy does that.
   type, public :: tessera_t_type
      private
      type(c_ptr) :: handle = c_null_ptr, builder = c_null_ptr, batch = c_null_ptr
      integer :: rank = 0, data_type = tessera_type_real_8
      character(len=:), allocatable :: name
      logical :: batched = .false.
      real(c_double) :: batch_filter = 0
      character(len=:), allocatable :: batch_spec
      complex(c_double_complex) :: batch_alpha = 0
   end type

   type, public :: tessera_t_iterator_type
      private
      type(c_ptr) :: handle = c_null_ptr
      integer :: rank = 0
      integer(c_int64_t) :: slot = 0, slots = 0
   end type

   public :: tessera_t_pgrid_create, tessera_t_pgrid_destroy, tessera_t_distribution_new, tessera_t_distribution_destroy
   public :: tessera_t_default_distvec, tessera_t_create, tessera_t_destroy, tessera_t_finalize, tessera_t_clear
   public :: tessera_t_reserve_blocks, tessera_t_put_block, tessera_t_get_block, tessera_t_get_stored_coordinates
   public :: tessera_t_iterator_start, tessera_t_iterator_blocks_left, tessera_t_iterator_next_block, tessera_t_iterator_stop
   public :: tessera_t_contract, tessera_t_batched_contract_init, tessera_t_batched_contract_finalize
   public :: tessera_t_copy, tessera_t_filter, tessera_t_scale, tessera_t_norm, tessera_t_checksum
   public :: tessera_t_nblks_total, tessera_t_dims, tessera_t_ndims, tessera_t_get_num_blocks_total, tessera_t_get_nze_total
   public :: tessera_t_write, tessera_t_read

   interface tessera_t_create
      procedure create_new, create_template
   end interface
   interface tessera_t_contract
      procedure contract_real, contract_complex
   end interface
   interface tessera_t_scale
      procedure scale_real, scale_complex
   end interface
   interface tessera_t_put_block
      procedure put_2d_r4, put_2d_r8, put_2d_c4, put_2d_c8, &
         put_3d_r4, put_3d_r8, put_3d_c4, put_3d_c8, &
         put_4d_r4, put_4d_r8, put_4d_c4, put_4d_c8
   end interface
   interface tessera_t_get_block
      procedure get_2d_r4, get_2d_r8, get_2d_c4, get_2d_c8, &
         get_3d_r4, get_3d_r8, get_3d_c4, get_3d_c8, &
         get_4d_r4, get_4d_r8, get_4d_c4, get_4d_c8
   end interface

contains

   ! -- errors

   subroutine check(error)
      integer(c_int), intent(in) :: error
      character(kind=c_char), pointer :: letters(:)
      type(c_ptr) :: text
      integer :: n
      if (error == 0) return
      text = c_message()
      call c_f_pointer(text, letters, [c_strlen(text)])
      write (error_unit, '(a)', advance='no') 'tessera: '
      do n = 1, size(letters)
         write (error_unit, '(a)', advance='no') letters(n)
      end do
      write (error_unit, '(a)') ''
      flush (error_unit)
      call refuse_with(int(error))
   end subroutine

   subroutine refuse(text)
      character(len=*), intent(in) :: text
      write (error_unit, '(2a)') 'tessera: ', text
      flush (error_unit)
      call refuse_with(2)
   end subroutine

   subroutine refuse_with(code)
      integer, intent(in) :: code
      select case (code)
      case (2)
         error stop 2
      case (3)
         error stop 3
      case (4)
         error stop 4
      case default
         error stop 70
      end select
   end subroutine

   pure function text_of(n) result(text)
      integer, intent(in) :: n
      character(len=:), allocatable :: text
      character(len=12) :: digits
      write (digits, '(i0)') n
      text = trim(digits)
   end function

   subroutine require_made(tensor)
      type(tessera_t_type), intent(in) :: tensor
      if (.not. c_associated(tensor%handle)) call refuse('the tensor is not created')
   end subroutine

   ! -- ranks

   !> dims: ranks along each index; those that are 0 are chosen. tensor_dims: blocks along each index.
   subroutine tessera_t_pgrid_create(mp_comm, dims, pgrid, tensor_dims)
      integer, intent(in) :: mp_comm
      integer, intent(inout) :: dims(:)
      type(tessera_t_pgrid_type), intent(out) :: pgrid
      integer, intent(in), optional :: tensor_dims(:)
      integer(c_int) :: ranks
      integer :: left, factor, d, best
      logical :: chosen(size(dims))
      call share_comm(mp_comm, pgrid%comm)
      call check(c_comm_size(pgrid%comm, ranks))
      chosen = dims == 0
      where (chosen) dims = 1
      if (any(dims < 1)) call refuse('a grid of ranks has a negative side')
      left = ranks/product(dims)
      if (any(chosen)) then
         ! The largest factors first, each where blocks are most per rank.
         do while (left > 1)
            factor = largest_factor(left)
            best = 0
            do d = 1, size(dims)
               if (.not. chosen(d)) cycle
               if (best == 0) best = d
               if (blocks(d)*dims(best) > blocks(best)*dims(d)) best = d
            end do
            dims(best) = dims(best)*factor
            left = left/factor
         end do
      end if
      pgrid%dims = dims
   contains
      integer function blocks(d)
         integer, intent(in) :: d
         blocks = 1
         if (present(tensor_dims)) blocks = tensor_dims(d)
      end function
      integer function largest_factor(n)
         integer, intent(in) :: n
         integer :: rest, f
         rest = n
         f = 2
         largest_factor = n
         do while (f <= rest)
            if (mod(rest, f) == 0) then
               largest_factor = f
               rest = rest/f
            else
               f = f + 1
            end if
         end do
      end function
   end subroutine

   !> After the tensors on it.
   subroutine tessera_t_pgrid_destroy(pgrid)
      type(tessera_t_pgrid_type), intent(inout) :: pgrid
      integer :: n
      do n = 1, size(comms)
         if (.not. c_associated(comms(n)%comm, pgrid%comm)) cycle
         comms(n)%grids = comms(n)%grids - 1
         if (comms(n)%grids > 0) exit
         call check(c_comm_destroy(pgrid%comm))
         comms = [comms(:n - 1), comms(n + 1:)]
         exit
      end do
      pgrid%comm = c_null_ptr
   end subroutine

   subroutine share_comm(mp_comm, comm)
      integer, intent(in) :: mp_comm
      type(c_ptr), intent(out) :: comm
      type(comm_type) :: one
      integer :: n
      if (.not. allocated(comms)) allocate (comms(0))
      do n = 1, size(comms)
         if (comms(n)%mp_comm /= mp_comm) cycle
         comms(n)%grids = comms(n)%grids + 1
         comm = comms(n)%comm
         return
      end do
      one%mp_comm = mp_comm
      one%grids = 1
      call check(c_comm_from_mpi(int(mp_comm, c_int), one%comm))
      comms = [comms, one]
      comm = one%comm
   end subroutine

   !> nd_dist_d: for each block along index d the coordinate, from 0, of its ranks.
   subroutine tessera_t_distribution_new(dist, pgrid, nd_dist_1, nd_dist_2, nd_dist_3, nd_dist_4)
      type(tessera_t_distribution_type), intent(out) :: dist
      type(tessera_t_pgrid_type), intent(in) :: pgrid
      integer, intent(in), optional :: nd_dist_1(:), nd_dist_2(:), nd_dist_3(:), nd_dist_4(:)
      dist%comm = pgrid%comm
      dist%dims = pgrid%dims
      allocate (dist%coordinates(size(pgrid%dims)))
      call take(1, nd_dist_1)
      call take(2, nd_dist_2)
      call take(3, nd_dist_3)
      call take(4, nd_dist_4)
   contains
      subroutine take(d, values)
         integer, intent(in) :: d
         integer, intent(in), optional :: values(:)
         if (d > size(dist%dims)) return
         if (.not. present(values)) call refuse('nd_dist_'//text_of(d)//' is missing: the grid has '//text_of(size(dist%dims))//' indices')
         dist%coordinates(d)%values = values
      end subroutine
   end subroutine

   subroutine tessera_t_distribution_destroy(dist)
      type(tessera_t_distribution_type), intent(inout) :: dist
      if (allocated(dist%coordinates)) deallocate (dist%coordinates)
      dist%comm = c_null_ptr
   end subroutine

   !> Blocks of these sizes to nproc coordinates, from 0: large ones first, each to whoever has least.
   subroutine tessera_t_default_distvec(nblk, nproc, blk_size, dist)
      integer, intent(in) :: nblk, nproc, blk_size(nblk)
      integer, intent(out) :: dist(nblk)
      integer :: n, block, load(nproc)
      logical :: dealt(nblk)
      load = 0
      dealt = .false.
      do n = 1, nblk
         block = maxloc(blk_size, dim=1, mask=.not. dealt)
         dealt(block) = .true.
         dist(block) = minloc(load, dim=1) - 1
         load(dist(block) + 1) = load(dist(block) + 1) + blk_size(block)
      end do
   end subroutine

   ! -- tensors

   !> map1_2d and map2_2d, the matrix that DBCSR makes of a tensor, are not needed here.
   subroutine create_new(tensor, name, dist, map1_2d, map2_2d, data_type, blk_size_1, blk_size_2, blk_size_3, blk_size_4)
      type(tessera_t_type), intent(out) :: tensor
      character(len=*), intent(in) :: name
      type(tessera_t_distribution_type), intent(in) :: dist
      integer, intent(in) :: map1_2d(:), map2_2d(:)
      integer, intent(in), optional :: data_type
      integer, intent(in), optional :: blk_size_1(:), blk_size_2(:), blk_size_3(:), blk_size_4(:)
      type :: sizes_type
         integer(c_int64_t), allocatable :: values(:)
      end type
      type :: map_type
         integer(c_int32_t), allocatable :: values(:)
      end type
      type(sizes_type), target :: sizes(4)
      type(map_type), target :: maps(4)
      integer(c_int64_t), target :: tiles(4)
      integer(c_int32_t), target :: sides(4)
      type(c_ptr), target :: size_lists(4), map_lists(4)
      type(grid_type) :: grid
      type(placement_type) :: placement
      integer :: rank, d
      rank = size(map1_2d) + size(map2_2d)
      if (rank /= size(dist%dims)) call refuse(name//': '//text_of(rank)//' indices, the distribution has '//text_of(size(dist%dims)))
      tensor%name = name
      tensor%rank = rank
      if (present(data_type)) tensor%data_type = data_type
      call take(1, blk_size_1)
      call take(2, blk_size_2)
      call take(3, blk_size_3)
      call take(4, blk_size_4)
      do d = 1, rank
         size_lists(d) = c_loc(sizes(d)%values)
         map_lists(d) = c_loc(maps(d)%values)
      end do
      grid = grid_type(int(rank, c_int), c_loc(tiles), c_loc(size_lists))
      placement = placement_type(dist%comm, c_loc(map_lists), c_loc(sides))
      call check(c_create(int(tensor%data_type, c_int), grid, placement, tensor%handle))
      call check(c_builder_create_like(tensor%handle, 0_c_int64_t, tensor%builder))
   contains
      subroutine take(d, values)
         integer, intent(in) :: d
         integer, intent(in), optional :: values(:)
         integer :: c
         if (d > rank) return
         if (.not. present(values)) call refuse(name//': blk_size_'//text_of(d)//' is missing')
         if (size(values) /= size(dist%coordinates(d)%values)) &
            call refuse(name//': '//text_of(size(values))//' blocks along index '//text_of(d)//', the distribution has ' &
                        //text_of(size(dist%coordinates(d)%values)))
         c = rank - d + 1  ! the opposite order
         sizes(c)%values = int(values, c_int64_t)
         maps(c)%values = int(dist%coordinates(d)%values, c_int32_t)
         tiles(c) = size(values)
         sides(c) = int(dist%dims(d), c_int32_t)
      end subroutine
   end subroutine

   !> Of the same blocks, type and distribution, without a block.
   subroutine create_template(tensor_in, tensor, name)
      type(tessera_t_type), intent(in) :: tensor_in
      type(tessera_t_type), intent(out) :: tensor
      character(len=*), intent(in), optional :: name
      call require_made(tensor_in)
      tensor%rank = tensor_in%rank
      tensor%data_type = tensor_in%data_type
      tensor%name = tensor_in%name
      if (present(name)) tensor%name = name
      call empty_like(tensor_in%handle, tensor%handle)
      call check(c_builder_create_like(tensor%handle, 0_c_int64_t, tensor%builder))
   end subroutine

   subroutine empty_like(handle, made)
      type(c_ptr), intent(in) :: handle
      type(c_ptr), intent(out) :: made
      type(c_ptr) :: builder
      call check(c_builder_create_like(handle, 0_c_int64_t, builder))
      call check(c_finalize(builder, 0_c_int, made))
      call check(c_builder_destroy(builder))
   end subroutine

   subroutine tessera_t_destroy(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call check(c_batch_destroy(tensor%batch))
      call check(c_builder_destroy(tensor%builder))
      call check(c_destroy(tensor%handle))
      tensor%batch = c_null_ptr
      tensor%builder = c_null_ptr
      tensor%handle = c_null_ptr
      tensor%batched = .false.
   end subroutine

   !> Blocks that were put go into the tensor, on whatever rank they were. Collective; contractions, copies and all else that
   !> is collective do it themselves.
   subroutine tessera_t_finalize(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call require_made(tensor)
      if (c_associated(tensor%batch)) call finish_batch(tensor)
      call check(c_finalize_into(tensor%builder, 0_c_int, tensor%handle))
   end subroutine

   subroutine tessera_t_clear(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      type(c_ptr) :: empty
      call tessera_t_finalize(tensor)
      call empty_like(tensor%handle, empty)
      call replace(tensor, empty)
   end subroutine

   subroutine replace(tensor, handle)
      type(tessera_t_type), intent(inout) :: tensor
      type(c_ptr), intent(in) :: handle
      call check(c_destroy(tensor%handle))
      tensor%handle = handle
   end subroutine

   ! -- blocks

   function coordinates(rank, ind) result(tile)
      integer, intent(in) :: rank, ind(:)
      integer(c_int64_t) :: tile(rank)
      if (size(ind) /= rank) call refuse('a block with '//text_of(size(ind))//' indices of a tensor of rank '//text_of(rank))
      tile = int(ind(rank:1:-1), c_int64_t) - 1
   end function

   !> Block n of the lists has indices blk_ind_1(n), blk_ind_2(n)... They are stored from then on, zero where nothing is put.
   !> Collective; each rank names any blocks.
   subroutine tessera_t_reserve_blocks(tensor, blk_ind_1, blk_ind_2, blk_ind_3, blk_ind_4)
      type(tessera_t_type), intent(inout) :: tensor
      integer, intent(in), optional :: blk_ind_1(:), blk_ind_2(:), blk_ind_3(:), blk_ind_4(:)
      integer :: n, ind(4)
      call require_made(tensor)
      if (.not. present(blk_ind_1)) call refuse('blk_ind_1 is missing')
      do n = 1, size(blk_ind_1)
         ind(1) = blk_ind_1(n)
         if (present(blk_ind_2)) ind(2) = blk_ind_2(n)
         if (present(blk_ind_3)) ind(3) = blk_ind_3(n)
         if (present(blk_ind_4)) ind(4) = blk_ind_4(n)
         call check(c_reserve(tensor%builder, coordinates(tensor%rank, ind(1:given()))))
      end do
      call tessera_t_finalize(tensor)
   contains
      integer function given()
         given = 1 + count([present(blk_ind_2), present(blk_ind_3), present(blk_ind_4)])
      end function
   end subroutine

   subroutine check_block(tensor, ind, sizes, data_type)
      type(tessera_t_type), intent(in) :: tensor
      integer, intent(in) :: ind(:), sizes(:), data_type
      integer(c_int64_t), allocatable :: of_index(:)
      integer :: d
      call require_made(tensor)
      if (size(ind) /= tensor%rank) &
         call refuse(tensor%name//': a block of rank '//text_of(size(ind))//' for a tensor of rank '//text_of(tensor%rank))
      if (data_type /= tensor%data_type) &
         call refuse(tensor%name//': a block of type '//text_of(data_type)//' for a tensor of type '//text_of(tensor%data_type))
      do d = 1, tensor%rank
         of_index = block_sizes(tensor%handle, tensor%rank, d)
         if (ind(d) < 1 .or. ind(d) > size(of_index)) &
            call refuse(tensor%name//': block '//text_of(ind(d))//' of index '//text_of(d)//', which has '//text_of(size(of_index)))
         if (sizes(d) /= of_index(ind(d))) &
            call refuse(tensor%name//': '//text_of(sizes(d))//' elements of block '//text_of(ind(d))//' of index '//text_of(d) &
                        //', which has '//text_of(int(of_index(ind(d)))))
      end do
   end subroutine

   function block_sizes(handle, rank, d) result(sizes)
      type(c_ptr), intent(in) :: handle
      integer, intent(in) :: rank, d
      integer(c_int64_t), allocatable :: sizes(:)
      integer(c_int64_t) :: n
      call check(c_tiles_along(handle, int(rank - d, c_int), n))
      allocate (sizes(n))
      call check(c_tile_sizes(handle, int(rank - d, c_int), sizes))
   end function

   !> Without summation the block takes the place of what is there.
   subroutine put_elements(tensor, ind, elements, summation)
      type(tessera_t_type), intent(inout) :: tensor
      integer, intent(in) :: ind(:)
      type(c_ptr), intent(in) :: elements
      logical, intent(in), optional :: summation
      logical :: sums
      sums = .false.
      if (present(summation)) sums = summation
      if (sums) then
         call check(c_add(tensor%builder, coordinates(tensor%rank, ind), elements))
      else
         call check(c_put(tensor%builder, coordinates(tensor%rank, ind), elements))
      end if
   end subroutine

   !> Null where the block is zero or another rank's.
   function elements_of(tensor, ind) result(elements)
      type(tessera_t_type), intent(in) :: tensor
      integer, intent(in) :: ind(:)
      type(c_ptr) :: elements
      integer(c_int64_t) :: slot
      elements = c_null_ptr
      call check(c_find_tile(tensor%handle, coordinates(tensor%rank, ind), slot))
      if (slot >= 0) call check(c_tile(tensor%handle, slot, c_null_ptr, c_null_ptr, c_null_ptr, elements))
   end function

   subroutine tessera_t_get_stored_coordinates(tensor, ind_nd, processor)
      type(tessera_t_type), intent(in) :: tensor
      integer, intent(in) :: ind_nd(:)
      integer, intent(out) :: processor
      integer(c_int) :: rank
      call require_made(tensor)
      call check(c_owner(tensor%handle, coordinates(tensor%rank, ind_nd), rank))
      processor = int(rank)
   end subroutine

   ! -- this rank's blocks, one after the other

   !> Blocks that were put and are not finalised are not among them.
   subroutine tessera_t_iterator_start(iterator, tensor)
      type(tessera_t_iterator_type), intent(out) :: iterator
      type(tessera_t_type), intent(in) :: tensor
      call require_made(tensor)
      iterator%handle = tensor%handle
      iterator%rank = tensor%rank
      call check(c_tile_count(tensor%handle, iterator%slots))
      iterator%slot = 0
      call skip(iterator)
   end subroutine

   subroutine skip(iterator)
      type(tessera_t_iterator_type), intent(inout) :: iterator
      type(c_ptr) :: elements
      do while (iterator%slot < iterator%slots)
         call check(c_tile(iterator%handle, iterator%slot, c_null_ptr, c_null_ptr, c_null_ptr, elements))
         if (c_associated(elements)) return
         iterator%slot = iterator%slot + 1
      end do
   end subroutine

   logical function tessera_t_iterator_blocks_left(iterator)
      type(tessera_t_iterator_type), intent(in) :: iterator
      tessera_t_iterator_blocks_left = iterator%slot < iterator%slots
   end function

   !> blk: its number; blk_offset: its first element along each index, from 1.
   subroutine tessera_t_iterator_next_block(iterator, ind_nd, blk, blk_p, blk_size, blk_offset)
      type(tessera_t_iterator_type), intent(inout) :: iterator
      integer, intent(out) :: ind_nd(:)
      integer, intent(out), optional :: blk, blk_p
      integer, intent(out), optional :: blk_size(:), blk_offset(:)
      integer(c_int64_t), target :: tile(16), extents(16)
      integer(c_int64_t), allocatable :: sizes(:)
      type(c_ptr) :: elements
      integer :: d, r
      if (iterator%slot >= iterator%slots) call refuse('the iterator has no blocks left')
      call check(c_tile(iterator%handle, iterator%slot, c_loc(tile), c_loc(extents), c_null_ptr, elements))
      r = iterator%rank
      ind_nd(1:r) = int(tile(r:1:-1)) + 1
      if (present(blk)) blk = int(iterator%slot) + 1
      if (present(blk_p)) blk_p = int(iterator%slot) + 1
      if (present(blk_size)) blk_size(1:r) = int(extents(r:1:-1))
      if (present(blk_offset)) then
         do d = 1, r
            sizes = block_sizes(iterator%handle, r, d)
            blk_offset(d) = int(sum(sizes(1:ind_nd(d) - 1))) + 1
         end do
      end if
      iterator%slot = iterator%slot + 1
      call skip(iterator)
   end subroutine

   subroutine tessera_t_iterator_stop(iterator)
      type(tessera_t_iterator_type), intent(inout) :: iterator
      iterator%handle = c_null_ptr
      iterator%slots = 0
   end subroutine

   ! -- contractions

   !> tensor_3(map_1, map_2) = alpha tensor_1(notcontract_1, contract_1) tensor_2(contract_2, notcontract_2) + beta tensor_3.
   !> Bounds are first and last elements, of contract_1, notcontract_1 and notcontract_2.
   subroutine contract_real(alpha, tensor_1, tensor_2, beta, tensor_3, contract_1, notcontract_1, contract_2, notcontract_2, &
                            map_1, map_2, bounds_1, bounds_2, bounds_3, filter_eps, flop, move_data, retain_sparsity)
      real(c_double), intent(in) :: alpha, beta
      type(tessera_t_type), intent(inout) :: tensor_1, tensor_2, tensor_3
      integer, intent(in) :: contract_1(:), notcontract_1(:), contract_2(:), notcontract_2(:), map_1(:), map_2(:)
      integer, intent(in), optional :: bounds_1(:, :), bounds_2(:, :), bounds_3(:, :)
      real(c_double), intent(in), optional :: filter_eps
      integer(c_int64_t), intent(out), optional :: flop
      logical, intent(in), optional :: move_data, retain_sparsity
      call contract_complex(cmplx(alpha, 0, c_double), tensor_1, tensor_2, cmplx(beta, 0, c_double), tensor_3, contract_1, &
                            notcontract_1, contract_2, notcontract_2, map_1, map_2, bounds_1, bounds_2, bounds_3, &
                            filter_eps, flop, move_data, retain_sparsity)
   end subroutine

   subroutine contract_complex(alpha, tensor_1, tensor_2, beta, tensor_3, contract_1, notcontract_1, contract_2, notcontract_2, &
                               map_1, map_2, bounds_1, bounds_2, bounds_3, filter_eps, flop, move_data, retain_sparsity)
      complex(c_double), intent(in) :: alpha, beta
      type(tessera_t_type), intent(inout) :: tensor_1, tensor_2, tensor_3
      integer, intent(in) :: contract_1(:), notcontract_1(:), contract_2(:), notcontract_2(:), map_1(:), map_2(:)
      integer, intent(in), optional :: bounds_1(:, :), bounds_2(:, :), bounds_3(:, :)
      real(c_double), intent(in), optional :: filter_eps
      integer(c_int64_t), intent(out), optional :: flop
      logical, intent(in), optional :: move_data, retain_sparsity
      character(len=:), allocatable :: spec
      type(options_type) :: options
      type(report_type) :: report
      type(bounds_type), target :: bounds(12)
      integer :: n_bounds
      spec = spec_of()
      n_bounds = 0
      if (present(bounds_1)) call bound('A', contract_1, bounds_1, .true.)
      if (present(bounds_2)) call bound('a', map_1, bounds_2, .false.)
      if (present(bounds_3)) call bound('a', map_2, bounds_3, .false.)
      call check(c_finalize_into(tensor_1%builder, 0_c_int, tensor_1%handle))
      call check(c_finalize_into(tensor_2%builder, 0_c_int, tensor_2%handle))
      call c_options_init(options)
      options%alpha = alpha
      options%beta = beta
      if (present(retain_sparsity)) options%retain_sparsity = merge(1, 0, retain_sparsity)
      if (tensor_3%batched .or. options%retain_sparsity /= 0) then
         call in_batch()
      else
         call check(c_finalize_into(tensor_3%builder, 0_c_int, tensor_3%handle))
         if (present(filter_eps)) options%filter = filter_eps
         options%n_bounds = int(n_bounds, c_int)
         options%bounds = c_loc(bounds)
         call check(c_contract_into(spec//c_null_char, tensor_1%handle, tensor_2%handle, tensor_3%handle, options, report))
         if (present(flop)) flop = int(report%flops, c_int64_t)
      end if
      if (present(move_data)) then
         if (move_data) then
            call tessera_t_clear(tensor_1)
            call tessera_t_clear(tensor_2)
         end if
      end if
   contains
      !> Letters A, B... are contracted, a, b... are the indices of tensor_3; each operand's in the opposite order.
      function spec_of() result(text)
         character(len=:), allocatable :: text
         character(len=1) :: one(tensor_1%rank), two(tensor_2%rank)
         integer :: n
         call require_made(tensor_1)
         call require_made(tensor_2)
         call require_made(tensor_3)
         if (size(contract_1) /= size(contract_2) .or. size(map_1) /= size(notcontract_1) .or. size(map_2) /= size(notcontract_2)) &
            call refuse('contract_1 and contract_2, map_1 and notcontract_1, map_2 and notcontract_2 go together: they have ' &
                        //text_of(size(contract_1))//' and '//text_of(size(contract_2))//', '//text_of(size(map_1))//' and ' &
                        //text_of(size(notcontract_1))//', '//text_of(size(map_2))//' and '//text_of(size(notcontract_2)))
         if (size(contract_1) + size(notcontract_1) /= tensor_1%rank .or. size(contract_2) + size(notcontract_2) /= tensor_2%rank &
             .or. size(map_1) + size(map_2) /= tensor_3%rank) &
            call refuse('the tensors have '//text_of(tensor_1%rank)//', '//text_of(tensor_2%rank)//' and ' &
                        //text_of(tensor_3%rank)//' indices, which the lists do not name')
         one = ' '
         two = ' '
         do n = 1, size(contract_1)
            call name_index(one, contract_1(n), achar(iachar('A') + n - 1), tensor_1%name)
            call name_index(two, contract_2(n), achar(iachar('A') + n - 1), tensor_2%name)
         end do
         do n = 1, size(map_1)
            call name_index(one, notcontract_1(n), achar(iachar('a') + map_1(n) - 1), tensor_1%name)
         end do
         do n = 1, size(map_2)
            call name_index(two, notcontract_2(n), achar(iachar('a') + map_2(n) - 1), tensor_2%name)
         end do
         text = ''
         do n = size(one), 1, -1
            text = text//one(n)
         end do
         text = text//','
         do n = size(two), 1, -1
            text = text//two(n)
         end do
         text = text//'->'
         do n = tensor_3%rank, 1, -1
            text = text//achar(iachar('a') + n - 1)
         end do
      end function
      subroutine name_index(letters, index, letter, name)
         character(len=1), intent(inout) :: letters(:)
         integer, intent(in) :: index
         character(len=1), intent(in) :: letter
         character(len=*), intent(in) :: name
         if (index < 1 .or. index > size(letters)) &
            call refuse(name//': index '//text_of(index)//' of a tensor of rank '//text_of(size(letters)))
         if (letters(index) /= ' ') call refuse(name//': index '//text_of(index)//' is named twice')
         letters(index) = letter
      end subroutine
      subroutine bound(first, indices, ranges, by_order)
         character(len=1), intent(in) :: first
         integer, intent(in) :: indices(:), ranges(:, :)
         logical, intent(in) :: by_order
         integer :: n
         if (size(ranges, 1) /= 2 .or. size(ranges, 2) /= size(indices)) &
            call refuse('bounds of '//text_of(size(ranges, 2))//' indices for '//text_of(size(indices)))
         do n = 1, size(indices)
            n_bounds = n_bounds + 1
            bounds(n_bounds)%label = achar(iachar(first) - 1 + merge(n, indices(n), by_order))
            bounds(n_bounds)%lo = ranges(1, n) - 1
            bounds(n_bounds)%hi = ranges(2, n)
         end do
      end subroutine
      !> One batch for all calls that go on with its sums.
      subroutine in_batch()
         logical :: goes_on
         goes_on = c_associated(tensor_3%batch)
         if (goes_on) goes_on = tensor_3%batch_spec == spec .and. tensor_3%batch_alpha == alpha .and. beta == 1
         if (.not. goes_on) then
            call tessera_t_finalize(tensor_3)
            call check(c_batch_create(spec//c_null_char, tensor_3%handle, options, tensor_3%batch))
            tensor_3%batch_spec = spec
            tensor_3%batch_alpha = alpha
         end if
         call check(c_batch_add(tensor_3%batch, tensor_1%handle, tensor_2%handle, int(n_bounds, c_int), c_loc(bounds)))
         tensor_3%batch_filter = 0
         if (present(filter_eps)) tensor_3%batch_filter = filter_eps
         if (present(flop)) flop = 0
         if (.not. tensor_3%batched) call finish_batch(tensor_3, flop)
      end subroutine
   end subroutine

   subroutine finish_batch(tensor, flop)
      type(tessera_t_type), intent(inout) :: tensor
      integer(c_int64_t), intent(out), optional :: flop
      type(report_type) :: report
      call check(c_batch_finish(tensor%batch, tensor%batch_filter, report))
      call check(c_batch_destroy(tensor%batch))
      tensor%batch = c_null_ptr
      if (present(flop)) flop = int(report%flops, c_int64_t)
   end subroutine

   !> From here on contractions into the tensor are kept as sums, which tessera_t_batched_contract_finalize filters once.
   subroutine tessera_t_batched_contract_init(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call require_made(tensor)
      tensor%batched = .true.
   end subroutine

   subroutine tessera_t_batched_contract_finalize(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      tensor%batched = .false.
      if (c_associated(tensor%batch)) call finish_batch(tensor)
   end subroutine

   ! -- copies and functions

   !> Index order(i) of tensor_out is index i of tensor_in, as in RESHAPE. bounds(:, i): first and last element of index i of
   !> tensor_in; the others count as zero. A tensor_out that is not created becomes what tensor_in is.
   subroutine tessera_t_copy(tensor_in, tensor_out, order, summation, bounds, move_data)
      type(tessera_t_type), intent(inout) :: tensor_in, tensor_out
      integer, intent(in), optional :: order(:)
      logical, intent(in), optional :: summation, move_data
      integer, intent(in), optional :: bounds(:, :)
      type(c_ptr) :: whole, part, turned, other
      integer(c_int) :: to(16)
      integer(c_int64_t) :: lo(16), hi(16)
      integer :: i, r
      logical :: sums
      call tessera_t_finalize(tensor_in)
      r = tensor_in%rank
      if (present(bounds)) then
         if (size(bounds, 1) /= 2 .or. size(bounds, 2) /= r) &
            call refuse('bounds of '//text_of(size(bounds, 2))//' indices for '//text_of(r))
         do i = 1, r
            lo(r - i + 1) = bounds(1, i) - 1
            hi(r - i + 1) = bounds(2, i)
         end do
         call check(c_slice(tensor_in%handle, lo, hi, part))
         call empty_like(tensor_in%handle, whole)
         call check(c_assign_slice(whole, lo, hi, part))
         call check(c_destroy(part))
      else
         call check(c_copy(tensor_in%handle, whole))
      end if
      if (present(order)) then
         if (size(order) /= r) call refuse('order has '//text_of(size(order))//' indices, the tensor has '//text_of(r))
         to = -1
         do i = 1, r
            if (order(i) >= 1 .and. order(i) <= r) to(r - order(i) + 1) = int(r - i, c_int)
         end do
         call check(c_permute(whole, to, turned))
         call check(c_destroy(whole))
         whole = turned
      end if
      if (.not. c_associated(tensor_out%handle)) then
         tensor_out%handle = whole
         tensor_out%rank = r
         tensor_out%data_type = tensor_in%data_type
         tensor_out%name = tensor_in%name
         call check(c_builder_create_like(whole, 0_c_int64_t, tensor_out%builder))
      else
         call tessera_t_finalize(tensor_out)
         call in_tiles_of(tensor_out, whole)
         sums = .false.
         if (present(summation)) sums = summation
         if (.not. sums) then
            call empty_like(tensor_out%handle, other)
            call check(c_axpy((1.0_c_double, 0.0_c_double), whole, other))
            call replace(tensor_out, other)
         else
            call check(c_axpy((1.0_c_double, 0.0_c_double), whole, tensor_out%handle))
         end if
         call check(c_destroy(whole))
      end if
      if (present(move_data)) then
         if (move_data) call tessera_t_clear(tensor_in)
      end if
   end subroutine

   subroutine in_tiles_of(tensor, handle)
      type(tessera_t_type), intent(in) :: tensor
      type(c_ptr), intent(inout) :: handle
      type :: sizes_type
         integer(c_int64_t), allocatable :: values(:)
      end type
      type(sizes_type), target :: sizes(16)
      type(c_ptr), target :: lists(16)
      integer(c_int64_t), target :: tiles(16)
      integer(c_int) :: rank
      type(c_ptr) :: other
      type(grid_type) :: grid
      integer :: d
      call check(c_rank(handle, rank))
      if (rank /= tensor%rank) call refuse('a tensor of rank '//text_of(int(rank))//' is copied into one of rank '//text_of(tensor%rank))
      do d = 1, tensor%rank
         sizes(d)%values = block_sizes(tensor%handle, tensor%rank, tensor%rank - d + 1)
         tiles(d) = size(sizes(d)%values)
         lists(d) = c_loc(sizes(d)%values)
      end do
      grid = grid_type(rank, c_loc(tiles), c_loc(lists))
      call check(c_retile(handle, grid, other))
      call check(c_destroy(handle))
      handle = other
   end subroutine

   !> Blocks with a Frobenius norm below eps go.
   subroutine tessera_t_filter(tensor, eps)
      type(tessera_t_type), intent(inout) :: tensor
      real(c_double), intent(in) :: eps
      type(c_ptr) :: other
      call tessera_t_finalize(tensor)
      call check(c_filter(tensor%handle, eps, other))
      call replace(tensor, other)
   end subroutine

   subroutine scale_real(tensor, alpha)
      type(tessera_t_type), intent(inout) :: tensor
      real(c_double), intent(in) :: alpha
      call scale_complex(tensor, cmplx(alpha, 0, c_double))
   end subroutine

   subroutine scale_complex(tensor, alpha)
      type(tessera_t_type), intent(inout) :: tensor
      complex(c_double), intent(in) :: alpha
      call tessera_t_finalize(tensor)
      call check(c_scale(tensor%handle, alpha))
   end subroutine

   !> Frobenius norm.
   real(c_double) function tessera_t_norm(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call tessera_t_finalize(tensor)
      call check(c_norm(tensor%handle, tessera_t_norm))
   end function

   !> Of blocks and bits: equal for equal tensors, on any number of ranks.
   integer(c_int64_t) function tessera_t_checksum(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call tessera_t_finalize(tensor)
      call check(c_checksum(tensor%handle, tessera_t_checksum))
   end function

   integer function tessera_t_ndims(tensor)
      type(tessera_t_type), intent(in) :: tensor
      tessera_t_ndims = tensor%rank
   end function

   !> Blocks along an index.
   integer function tessera_t_nblks_total(tensor, idim)
      type(tessera_t_type), intent(in) :: tensor
      integer, intent(in) :: idim
      call require_made(tensor)
      tessera_t_nblks_total = size(block_sizes(tensor%handle, tensor%rank, idim))
   end function

   !> Elements along each index.
   subroutine tessera_t_dims(tensor, dims)
      type(tessera_t_type), intent(in) :: tensor
      integer, intent(out) :: dims(:)
      integer :: d
      call require_made(tensor)
      do d = 1, tensor%rank
         dims(d) = int(sum(block_sizes(tensor%handle, tensor%rank, d)))
      end do
   end subroutine

   !> Nonzero blocks, and elements in them, on all ranks.
   integer(c_int64_t) function tessera_t_get_num_blocks_total(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call tessera_t_finalize(tensor)
      call check(c_tile_count(tensor%handle, tessera_t_get_num_blocks_total))
   end function

   integer(c_int64_t) function tessera_t_get_nze_total(tensor)
      type(tessera_t_type), intent(inout) :: tensor
      call tessera_t_finalize(tensor)
      call check(c_element_count(tensor%handle, tessera_t_get_nze_total))
   end function

   ! -- files

   subroutine tessera_t_write(tensor, path)
      type(tessera_t_type), intent(inout) :: tensor
      character(len=*), intent(in) :: path
      call tessera_t_finalize(tensor)
      call check(c_write(path//c_null_char, tensor%handle))
   end subroutine

   !> Dealt evenly to the ranks of the grid.
   subroutine tessera_t_read(tensor, path, pgrid)
      type(tessera_t_type), intent(out) :: tensor
      character(len=*), intent(in) :: path
      type(tessera_t_pgrid_type), intent(in) :: pgrid
      integer(c_int) :: rank, data_type
      call check(c_read(path//c_null_char, pgrid%comm, tensor%handle))
      call check(c_rank(tensor%handle, rank))
      call check(c_type(tensor%handle, data_type))
      tensor%rank = int(rank)
      tensor%data_type = int(data_type)
      tensor%name = path
      call check(c_builder_create_like(tensor%handle, 0_c_int64_t, tensor%builder))
   end subroutine

   ! -- blocks of each rank and type

#include "all_blocks.inc"

end module
