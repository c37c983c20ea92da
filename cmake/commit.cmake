# The commit this build comes from, for benchmark results: asked of git when configuring, and again when HEAD moves.
find_package(Git QUIET)
set(TESSERA_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(TESSERA_COMMIT ${described})
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
      OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    get_filename_component(head_log "${head_log}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(EXISTS ${head_log})
      set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${head_log})
    endif()
  endif()
endif()
if(TARGET tessera_yardsticks)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/bench/common/commit.cpp TARGET_DIRECTORY tessera_yardsticks
    PROPERTIES COMPILE_DEFINITIONS "TESSERA_COMMIT=\"${TESSERA_COMMIT}\"")
endif()

# What `tessera --version` says besides.
if(TARGET tessera_program)
  set(built_cuda "")
  if(TESSERA_WITH_CUDA)
    list(JOIN CMAKE_CUDA_ARCHITECTURES " " built_cuda)
    set(built_cuda "${CUDAToolkit_VERSION}, architectures ${built_cuda}")
  endif()
  set_source_files_properties(${PROJECT_SOURCE_DIR}/apps/version.cpp TARGET_DIRECTORY tessera_program
    PROPERTIES COMPILE_DEFINITIONS "TESSERA_BUILT_MPI=\"${TESSERA_MPI_NAME}\";TESSERA_BUILT_CUDA=\"${built_cuda}\"")
endif()
