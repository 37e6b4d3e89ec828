// A library with one of the driver's functions, for cuda_api_test.
extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) { return 0; }
