! c(i,j) = sum over k and l of a(i,k,l) b(k,l,j): three-index tensors of a chain, whose blocks fade with distance. Contracted at
! once, and in batches of k; compared with MATMUL. Alone or on any number of ranks (mpirun -n 4) it prints the same.
program three_index
   use mpi
   use tessera
   use, intrinsic :: iso_fortran_env, only: real64, int64
   implicit none
   integer, parameter :: nblk = 6
   integer, parameter :: sizes(nblk) = [3, 1, 4, 2, 5, 3]
   real(real64), parameter :: none = 0
   type(tessera_t_pgrid_type) :: pgrid_3d, pgrid_2d
   type(tessera_t_distribution_type) :: dist_3d, dist_2d
   type(tessera_t_type) :: a, b, c, batched, turned
   type(tessera_t_iterator_type) :: iterator
   integer :: ierr, provided, rank, dims_3d(3), dims_2d(2), deal(nblk, 3), i, k, ind(3), at(2), blk, lo(3), extent(3), n
   real(real64), allocatable :: block(:, :)
   real(real64) :: worst, difference(1), all_worst(1)
   real(real64), allocatable :: expected(:, :)
   logical :: found
   integer(int64) :: flops

   call mpi_init_thread(MPI_THREAD_SERIALIZED, provided, ierr)
   call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
   n = sum(sizes)

   dims_3d = 0
   call tessera_t_pgrid_create(MPI_COMM_WORLD, dims_3d, pgrid_3d, tensor_dims=[nblk, nblk, nblk])
   dims_2d = 0
   call tessera_t_pgrid_create(MPI_COMM_WORLD, dims_2d, pgrid_2d)
   do i = 1, 3
      call tessera_t_default_distvec(nblk, dims_3d(i), sizes, deal(:, i))
   end do
   call tessera_t_distribution_new(dist_3d, pgrid_3d, deal(:, 1), deal(:, 2), deal(:, 3))
   do i = 1, 2
      call tessera_t_default_distvec(nblk, dims_2d(i), sizes, deal(:, i))
   end do
   call tessera_t_distribution_new(dist_2d, pgrid_2d, deal(:, 1), deal(:, 2))

   call tessera_t_create(a, 'a', dist_3d, [1], [2, 3], tessera_type_real_8, sizes, sizes, sizes)
   call tessera_t_create(a, b, 'b')
   call tessera_t_create(c, 'c', dist_2d, [1], [2], tessera_type_real_8, sizes, sizes)
   call fill(a, 1)
   call fill(b, 2)

   call tessera_t_contract(1.0_real64, a, b, none, c, contract_1=[2, 3], notcontract_1=[1], contract_2=[1, 2], &
                           notcontract_2=[3], map_1=[1], map_2=[2], filter_eps=1.0e-12_real64, flop=flops)

   ! What MATMUL says, on every rank.
   expected = matmul(reshape(dense(1), [n, n*n]), reshape(dense(2), [n*n, n]))
   worst = 0
   call tessera_t_iterator_start(iterator, c)
   do while (tessera_t_iterator_blocks_left(iterator))
      call tessera_t_iterator_next_block(iterator, at, blk, blk_size=extent(1:2), blk_offset=lo(1:2))
      allocate (block(extent(1), extent(2)))
      call tessera_t_get_block(c, at, extent(1:2), block, found)
      if (.not. found) error stop 'a block of the iterator is not found'
      worst = max(worst, maxval(abs(block - expected(lo(1):lo(1) + extent(1) - 1, lo(2):lo(2) + extent(2) - 1))))
      deallocate (block)
   end do
   call tessera_t_iterator_stop(iterator)
   difference = worst
   call mpi_allreduce(difference, all_worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)

   ! The same in batches: first and last element of index 2 of a, all of index 3.
   call tessera_t_create(c, batched, 'batched')
   call tessera_t_batched_contract_init(batched)
   do k = 1, n, 5
      call tessera_t_contract(1.0_real64, a, b, merge(none, 1.0_real64, k == 1), batched, [2, 3], [1], [1, 2], [3], [1], [2], &
                              bounds_1=reshape([k, min(k + 4, n), 1, n], [2, 2]), filter_eps=1.0e-12_real64)
   end do
   call tessera_t_batched_contract_finalize(batched)

   ! c - transpose(transpose(batched)) is zero to rounding.
   call tessera_t_copy(batched, turned, order=[2, 1])
   call tessera_t_scale(c, -1.0_real64)
   call tessera_t_copy(turned, c, order=[2, 1], summation=.true.)
   worst = tessera_t_norm(c)
   if (all_worst(1) > 1e-10 .or. worst > 1e-10) then
      if (rank == 0) print '(a,2es10.2)', 'wrong by', all_worst, worst
      error stop 1
   end if
   i = int(tessera_t_get_num_blocks_total(a))
   worst = tessera_t_norm(batched)
   flops = tessera_t_checksum(turned)
   if (rank == 0) print '(i0,a,f0.9,a,z16.16)', i, ' blocks of a, norm of c ', worst, ', checksum ', flops

   call tessera_t_destroy(turned)
   call tessera_t_destroy(batched)
   call tessera_t_destroy(c)
   call tessera_t_destroy(b)
   call tessera_t_destroy(a)
   call tessera_t_distribution_destroy(dist_2d)
   call tessera_t_distribution_destroy(dist_3d)
   call tessera_t_pgrid_destroy(pgrid_2d)
   call tessera_t_pgrid_destroy(pgrid_3d)
   call mpi_finalize(ierr)

contains

   pure real(real64) function element(which, i, j, k)
      integer, intent(in) :: which, i, j, k
      element = real(mod(7*which*i + 5*j + 3*k, 11) - 5, real64)/(1 + (i - j)**2 + (j - k)**2 + (i - k)**2)
   end function

   !> Blocks near the diagonal; the others are zero.
   pure logical function near(i, j, k)
      integer, intent(in) :: i, j, k
      near = max(i, j, k) - min(i, j, k) <= 2
   end function

   !> Each rank puts the blocks that it will have.
   subroutine fill(tensor, which)
      type(tessera_t_type), intent(inout) :: tensor
      integer, intent(in) :: which
      real(real64), allocatable :: values(:, :, :)
      integer :: i, j, k, owner, x, y, z
      do k = 1, nblk
         do j = 1, nblk
            do i = 1, nblk
               ind = [i, j, k]
               call tessera_t_get_stored_coordinates(tensor, ind, owner)
               if (owner /= rank .or. .not. near(i, j, k)) cycle
               extent = sizes(ind)
               lo = [sum(sizes(1:i - 1)), sum(sizes(1:j - 1)), sum(sizes(1:k - 1))]
               allocate (values(extent(1), extent(2), extent(3)))
               do z = 1, extent(3)
                  do y = 1, extent(2)
                     do x = 1, extent(1)
                        values(x, y, z) = element(which, lo(1) + x, lo(2) + y, lo(3) + z)
                     end do
                  end do
               end do
               call tessera_t_put_block(tensor, ind, extent, values)
               deallocate (values)
            end do
         end do
      end do
   end subroutine

   !> The same tensor as an array.
   function dense(which) result(x)
      integer, intent(in) :: which
      real(real64) :: x(n, n, n)
      integer :: of(n), i, j, k, t
      of = [(spread(t, 1, sizes(t)), t=1, nblk)]
      do k = 1, n
         do j = 1, n
            do i = 1, n
               x(i, j, k) = merge(element(which, i, j, k), none, near(of(i), of(j), of(k)))
            end do
         end do
      end do
   end function
end program
