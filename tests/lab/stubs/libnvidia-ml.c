/* A stand-in for libnvidia-ml.so.1: the functions that armstage asks. See stub.h.
 *
 * Signatures, structures and codes are those of nvml.h (CUDA 13.4). A handle is the number of its
 * "gpu" line plus 1, that of a MIG device 1000 plus the number of its "mig" line.
 * With -DSTUB_OLD the process functions are those of a driver before R455 alone.
 */
#include "stub.h"

#include <stdint.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
#define MIG_HANDLES 1000
#define MIB (1024ull * 1024ull)

typedef intptr_t Device;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} PciInfo;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType, nvmlReturn;
    unsigned long long value;
} FieldValue;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
#ifndef STUB_OLD
    unsigned int gpuInstanceId, computeInstanceId;
#endif
} ProcessInfo;

/* The parts of the line behind a handle. */
static int device_line(Device device, char line[STUB_LINE], char *parts[STUB_PARTS])
{
    if (device >= MIG_HANDLES)
        return stub_line("mig", device - MIG_HANDLES, line, parts);
    return stub_line("gpu", device - 1, line, parts);
}

static int copy(char *to, const char *from, unsigned int length)
{
    if (strlen(from) + 1 > length)
        return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}

static int number_of(const char *text, unsigned long long unit, unsigned long long *value)
{
    if (!strcmp(text, "-"))
        return NOT_SUPPORTED;
    *value = strtoull(text, NULL, 10) * unit;
    return SUCCESS;
}

int nvmlInit_v2(void)
{
    STUB_ENTER();
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    return stub_line("driver", 0, line, parts) ? copy(version, parts[0], length) : NOT_FOUND;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!stub_line("cuda", 0, line, parts))
        return 12; /* NVML_ERROR_LIBRARY_NOT_FOUND: no libcuda */
    *version = atoi(parts[0]);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    STUB_ENTER();
    *count = stub_count("gpu");
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device *device)
{
    STUB_ENTER();
    if ((int)index >= stub_count("gpu"))
        return INVALID_ARGUMENT;
    *device = index + 1;
    return SUCCESS;
}

int nvmlDeviceGetName(Device device, char *name, unsigned int length)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    return copy(name, parts[device >= MIG_HANDLES ? 1 : 0], length);
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned int length)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    return copy(uuid, parts[device >= MIG_HANDLES ? 2 : 1], length);
}

int nvmlDeviceGetPciInfo_v3(Device device, PciInfo *info)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    memset(info, 0, sizeof *info);
    return copy(info->busId, parts[2], sizeof info->busId);
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    memset(memory, 0, sizeof *memory);
    return number_of(parts[device >= MIG_HANDLES ? 5 : 3], MIB, &memory->total);
}

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    return sscanf(parts[4], "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMigMode(Device device, unsigned int *current, unsigned int *pending)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    unsigned long long mode;
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    int code = number_of(parts[5], 1, &mode);
    *current = *pending = (unsigned int)mode;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned int *count)
{
    (void)device;
    STUB_ENTER();
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned int index, Device *mig)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    for (int number = 0; stub_line("mig", number, line, parts); number++)
        if (atoi(parts[0]) == device - 1 && index-- == 0) {
            *mig = MIG_HANDLES + number;
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(Device device, unsigned int *id)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    *id = atoi(parts[3]);
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(Device device, unsigned int *id)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    STUB_ENTER();
    if (!device_line(device, line, parts))
        return INVALID_ARGUMENT;
    *id = atoi(parts[4]);
    return SUCCESS;
}

/* The number-th part of the "sensor" line of a GPU; NOT_SUPPORTED without one. */
static int sensor(Device device, int number, unsigned long long *value)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    if (!stub_line("sensor", device - 1, line, parts))
        return NOT_SUPPORTED;
    return number_of(parts[number], 1, value);
}

static int small_sensor(Device device, int number, unsigned int *value)
{
    unsigned long long found = 0;
    int code = sensor(device, number, &found);
    *value = (unsigned int)found;
    return code;
}

int nvmlDeviceGetTemperature(Device device, int kind, unsigned int *celsius)
{
    (void)kind;
    STUB_ENTER();
    return small_sensor(device, 0, celsius);
}

int nvmlDeviceGetPowerUsage(Device device, unsigned int *milliwatts)
{
    STUB_ENTER();
    return small_sensor(device, 1, milliwatts);
}

int nvmlDeviceGetClockInfo(Device device, int kind, unsigned int *mhz)
{
    (void)kind;
    STUB_ENTER();
    return small_sensor(device, 2, mhz);
}

int nvmlDeviceGetMaxClockInfo(Device device, int kind, unsigned int *mhz)
{
    (void)kind;
    STUB_ENTER();
    return small_sensor(device, 3, mhz);
}

int nvmlDeviceGetUtilizationRates(Device device, unsigned int rates[2])
{
    STUB_ENTER();
    rates[1] = 0;
    return small_sensor(device, 4, &rates[0]);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *reasons)
{
    STUB_ENTER();
    return sensor(device, 5, reasons);
}

int nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values)
{
    STUB_ENTER();
    for (int number = 0; number < count; number++) {
        unsigned int field = values[number].fieldId; /* 251 to 253: nanoseconds of slowdown */
        int known = field >= 251 && field <= 253;
        values[number].nvmlReturn = known ? sensor(device, 6 + field - 251, &values[number].value) : NOT_SUPPORTED;
    }
    return SUCCESS;
}

static int processes(Device device, char type, unsigned int *count, ProcessInfo *infos)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    unsigned int found = 0;
    for (int number = 0; stub_line("process", number, line, parts); number++) {
        if (atoi(parts[0]) != device - 1 || parts[3][0] != type)
            continue;
        if (found < *count) {
            memset(&infos[found], 0, sizeof *infos);
            infos[found].pid = atoi(parts[1]);
            if (number_of(parts[2], MIB, &infos[found].usedGpuMemory))
                infos[found].usedGpuMemory = ~0ull; /* NVML_VALUE_NOT_AVAILABLE */
        }
        found++;
    }
    int code = found > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

#define PROCESSES(name, type)                                                                      \
    int name(Device device, unsigned int *count, ProcessInfo *infos)                               \
    {                                                                                              \
        STUB_ENTER();                                                                              \
        return processes(device, type, count, infos);                                              \
    }

#ifdef STUB_OLD
PROCESSES(nvmlDeviceGetComputeRunningProcesses, 'C')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, 'G')
#else
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 'C')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G')
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 'C')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G')
#endif
