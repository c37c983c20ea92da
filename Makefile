# Tessera: `make demo` and `make test` are all a new user needs.
.PHONY: build demo test test-all test-asan test-tsan test-fuzz test-cuda test-mpich test-bridges python wheel packages bench bench-packages format bundle bundle-sm80 cuda12 install clean help
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# CUDA code takes most of the time to compile: only where there is a driver, or where CUDA=1 asks for it.
CUDA ?= $(if $(wildcard /proc/driver/nvidia/version /dev/nvidia0),1,0)
CMAKE_OPTIONS = -DTESSERA_CUDA=$(if $(filter 1,$(CUDA)),ON,OFF)

build: packages ## build Release into build/ (the program is build/tessera); CUDA=1: with CUDA code also without a driver
	@cmake --preset release --log-level=WARNING $(CMAKE_OPTIONS)
	@cmake --build build --parallel $(JOBS)

demo: ## build the program and contract the ABCD term of an alkane: plan, progress, rate, check (at most 6 minutes)
	@scripts/timed.sh demo $(JOBS) $(CMAKE_OPTIONS)

test: ## build and run the tests, through CTest; the slow ones: test-all (at most 15 minutes)
	@scripts/timed.sh test $(JOBS) $(CMAKE_OPTIONS)

test-all: ## the slow tests as well
	@TESSERA_SLOW=1 scripts/timed.sh test $(JOBS) $(CMAKE_OPTIONS)

python: packages ## build/python: the Python module, in a virtual environment of its own, and its tests (docs/python/README.md)
	@scripts/python_env.sh build/python-env
	@cmake --preset release --log-level=WARNING $(CMAKE_OPTIONS) -DTESSERA_PYTHON_MODULE=ON -DPython_EXECUTABLE=$(CURDIR)/build/python-env/bin/python
	@cmake --build build --parallel $(JOBS) --target tessera_python_stub
	@ctest --test-dir build -L python --output-on-failure --no-tests=error

wheel: packages ## build/wheels: wheels for other machines, one without MPI and one for the MPI that is here (CUDA=1: with the kernels)
	@CUDA=$(CUDA) JOBS=$(JOBS) scripts/wheel.sh

# What the bridges lead to, and what their tests are made with.
BRIDGES = opt_einsum cotengra autoray symmray quimb pyscf mpi4py trexio h5py physics-tenpy qcengine hypothesis tqdm matplotlib nbclient ipykernel

test-bridges: packages ## the Python module and the program under the packages that call them (opt_einsum, cotengra, autoray, symmray, quimb, PySCF, TREXIO, TeNPy, QCEngine, mpi4py); the notebooks
	@scripts/python_env.sh build/python-env $(BRIDGES)
	@cmake --preset release --log-level=WARNING $(CMAKE_OPTIONS) -DTESSERA_PYTHON_MODULE=ON -DPython_EXECUTABLE=$(CURDIR)/build/python-env/bin/python
	@cmake --build build --parallel $(JOBS) --target tessera_python_stub tessera_program
	@ctest --test-dir build -L bridges --output-on-failure --no-tests=error

test-asan: packages ## the unit tests under AddressSanitizer and UBSan
	@cmake --preset asan --log-level=WARNING
	@cmake --build build-asan --target unit_tests --parallel $(JOBS)
	@ctest --test-dir build-asan -L unit -j $(JOBS) --output-on-failure --timeout 1200

test-tsan: packages ## the unit tests under ThreadSanitizer (about ten minutes, without those of energies)
	@cmake --preset tsan --log-level=WARNING
	@cmake --build build-tsan --target unit_tests --parallel $(JOBS)
	@ctest --test-dir build-tsan -L unit -j $(JOBS) --output-on-failure --timeout 3000

test-fuzz: build ## the spec parser and the file readers under libFuzzer, with clang++
	@ctest --test-dir build -L fuzz --output-on-failure --no-tests=error

test-cuda: CUDA = 1
test-cuda: build ## compile all CUDA code, run its tests (most of them skip themselves where there is no device)
	@ctest --test-dir build -L cuda --output-on-failure --timeout 900 --no-tests=error

test-mpich: ## the MPI tests with MPICH, where it is installed (libmpich-dev, mpich)
	@scripts/test_mpich.sh build-mpich || [ $$? -eq 77 ]

packages:
	@scripts/install-packages.sh build test

bench: packages ## the benchmarks: build/tessera-bench, which `build/tessera bench` starts
	@cmake --preset release --log-level=WARNING $(CMAKE_OPTIONS)
	@cmake --build build --parallel $(JOBS) --target tessera_program tessera_bench

bench-packages: ## what the peers in `tessera bench ... --peers` need
	@scripts/install-packages.sh build test bench

format: ## clang-format every source file
	@scripts/format.sh

RACECHECK ?= 0
bundle: CUDA = 1
bundle: build ## build/tessera-bundle.tar.xz: programs, GPU tests and benches with their libraries (RACECHECK=1: docs/gpu.md)
	@if [ $(RACECHECK) = 1 ]; then scripts/racecheck.sh build-racecheck $(JOBS); fi
	@RACECHECK=$(RACECHECK) scripts/bundle.sh build

bundle-sm80: packages ## build-sm80/tessera-bundle.tar.xz: the same with PTX of compute_80 alone (bench/variant_device.sh)
	@cmake --preset sm80 --log-level=WARNING
	@cmake --build build-sm80 --parallel $(JOBS) --target cuda_tests
	@scripts/bundle.sh build-sm80

cuda12: packages ## build-cuda12/tessera-bundle.tar.xz: the same against CUDA 12.5, by clang-19 where it is installed (docs/gpu.md)
	@{ scripts/cuda12.sh build-cuda12 $(JOBS) && scripts/bundle.sh build-cuda12; } || [ $$? -eq 77 ]

install: ## build the program and the libraries, install them into PREFIX (default /usr/local)
	@scripts/install-packages.sh build
	@cmake --preset release --log-level=WARNING $(CMAKE_OPTIONS) -DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX))
	@cmake --build build --parallel $(JOBS) --target tessera_program tessera_libraries
	@cmake --install build

clean:
	@rm -rf build build-*

help: ## this text
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile
	@echo "Limits hold on two cores of a bare Debian 12, packages included; of the demo's 6 minutes compiling takes at most 4."
	@sed 's/^times: /Last here: /' build/times.txt 2> /dev/null || true
