// A libcuda.so.1 of long ago, as far as the CUDA runtime asks before it gives up: for old_driver.sh.
extern "C" {
__attribute__((visibility("default"))) int cuInit(unsigned) { return 0; }
__attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
    *version = 11000;
    return 0;
}
}
