# Compile options every target of this tree shares.
add_library(tessera_options INTERFACE)
set(errors "")
if(PROJECT_IS_TOP_LEVEL)  # in another project's build warnings are warnings
  set(errors ";-Werror")
endif()
target_compile_options(tessera_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion${errors}>"
  # Results are the same bits on every instruction set: a*b+c is fused only where the source says fma.
  "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--fmad=false;-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>"
  # clang (scripts/cuda12.sh) ignores __grid_constant__, which costs nothing but speed, and calls CUDA 12.5 half known.
  # g++ 12 leaves constraints out of symbols, as clang 16 did.
  "$<$<COMPILE_LANG_AND_ID:CUDA,Clang>:-Wall;-Wextra;-Werror;-ffp-contract=off;-fclang-abi-compat=16;-Wno-unknown-attributes;-Wno-pass-failed;-Wno-unknown-cuda-version>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports false positives from its own vector intrinsics and std::string.
  target_compile_options(tessera_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-restrict>")
endif()
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# Sources named *_avx2.cpp and *_avx512.cpp are compiled for that instruction set and chosen at run time.
function(tessera_isa_sources)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512dq;-mavx512vl;-mavx512bw;-mfma;-mavx2;-mprefer-vector-width=512;-Wno-uninitialized" SKIP_PRECOMPILE_HEADERS ON)
    elseif(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# What nearly every file includes is compiled once for each target: a second less for each file. Further headers that its
# files share may follow.
function(tessera_precompile target)
  foreach(header IN ITEMS <algorithm> <array> <atomic> <cmath> <complex> <cstdint> <functional> <map> <memory> <mutex> <optional>
                          <span> <string> <string_view> <utility> <vector> <fmt/format.h> LISTS ARGN)
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
endfunction()

# Arguments and text: nothing here is worth the optimiser's time, which a new user waits for.
function(tessera_cheap_to_compile target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
endfunction()
