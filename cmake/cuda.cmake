# The CUDA back end: TESSERA_WITH_CUDA says whether src/**/cuda/ or the throwing stubs of src/**/cuda_stub/ are built.
set(TESSERA_WITH_CUDA OFF)
if(TESSERA_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # Data-centre cards of the last generations; newer ones compile the PTX of the last at first use. 90a: warps of the
    # large grouped products hand registers to each other, which plain 90 has no instruction for.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}")  # also where an earlier configuration did without
    elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual")
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc 12 and newer take C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(TESSERA_WITH_CUDA ON)
  else()
    message(STATUS "no nvcc: the CUDA back end is left out")
  endif()
endif()
