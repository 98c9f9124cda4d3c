/* A stand-in for libcuda.so.1: the one function that needs no device. See stub.h. */
#include "stub.h"

int cuDriverGetVersion(int *version)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!stub_line("cuda", 0, line, parts))
        return 34; /* CUDA_ERROR_STUB_LIBRARY */
    *version = atoi(parts[0]);
    return 0;
}
