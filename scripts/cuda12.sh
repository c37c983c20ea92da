#!/bin/sh
# The library, the program and the CUDA tests against CUDA 12.5 (headers, ptxas, libdevice, runtime), in a build folder of
# their own: usage: scripts/cuda12.sh [BUILD_FOLDER] [JOBS]
# There is no nvcc 12.5 to be had as a Python package, so clang 19 (Debian: clang-19) compiles the kernels; the rest of
# the toolkit comes from NVIDIA's wheels. fatbinary, which packs ptxas's output, is in none of them: that of the
# installed toolkit does it. Ends with 77 where something of this is missing.
set -eu
cd "$(dirname "$0")/.."
fatbinary=$(PATH=$PATH:/usr/local/cuda/bin command -v fatbinary || true)
for program in clang++-19 pip3 "${fatbinary:-fatbinary}"; do
    command -v "$program" > /dev/null || { echo "skipped: there is no $program (Debian: clang-19, python3-pip; fatbinary: a CUDA toolkit)"; exit 77; }
done
mkdir -p "${1:-build-cuda12}"
build=$(cd "${1:-build-cuda12}" && pwd)

kit=$build/cuda-12.5
if ! [ -e "$kit/ready" ]; then
    rm -rf "$kit"
    mkdir -p "$kit/bin" "$kit/lib64"
    pip3 install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$kit/wheels" \
        nvidia-cuda-runtime-cu12==12.5.82 nvidia-cuda-nvcc-cu12==12.5.82
    wheels=$kit/wheels/nvidia
    cp -r "$wheels/cuda_nvcc/include" "$wheels/cuda_nvcc/nvvm" "$kit"
    cp -r "$wheels/cuda_runtime/include/." "$kit/include"
    : > "$kit/include/curand_mtgp32_kernel.h"  # clang includes it always
    cp "$wheels/cuda_nvcc/bin/ptxas" "$kit/bin"
    # CMake asks nvcc for nothing but its version here.
    printf '#!/bin/sh\necho "Cuda compilation tools, release 12.5, V12.5.82"\n' > "$kit/bin/nvcc"
    # fatbinary 13 has another way to name images than the one clang 19 knows.
    cat > "$kit/bin/fatbinary" <<SHIM
#!/bin/sh
exec "$fatbinary" \$(printf '%s\n' "\$@" | sed 's/^--image=profile=sm_/--image3=kind=elf,sm=/; s/^--image=profile=compute_/--image3=kind=ptx,sm=/')
SHIM
    chmod +x "$kit"/bin/*
    # The wheel has the shared runtime alone: what asks for the static one gets it.
    cp "$wheels/cuda_runtime/lib/libcudart.so.12" "$kit/lib64"
    ln -s libcudart.so.12 "$kit/lib64/libcudart.so"
    echo "INPUT($kit/lib64/libcudart.so.12)" > "$kit/lib64/libcudart_static.a"
    ar cr "$kit/lib64/libcudadevrt.a"
    touch "$kit/ready"
fi
cmake --preset release -B "$build" --log-level=WARNING -DTESSERA_PEERS=OFF -DCUDAToolkit_ROOT="$kit" \
    -DCMAKE_CUDA_COMPILER=clang++-19 -DCMAKE_CUDA_ARCHITECTURES="80-real;90a-real" -DCMAKE_BUILD_RPATH="$kit/lib64" -DCMAKE_CUDA_FLAGS="-isystem $kit/include"
cmake --build "$build" --parallel "${2:-$(nproc)}" --target cuda_tests
# An installed toolkit's headers in /usr/local/include would be found before clang's own choice.
others=$(ninja -C "$build" -t deps | grep -E '/(cuda[a-z_]*|host_defines|vector_types)[.]h$' | grep -v -F "$kit/" | sort -u || true)
[ -z "$others" ] || { echo "cuda12: headers of another toolkit were used:$others" >&2; exit 1; }
