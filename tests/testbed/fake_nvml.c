// An NVML with one GPU that does nothing but count what goes over its links: a KiB a microsecond in either direction, of all
// links together and of none by itself. Every function that is missing here is one that a driver may lack.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

struct field_value {
    unsigned field, scope;
    int64_t timestamp, latency;
    unsigned type, result;
    union {
        double floating;
        unsigned long long whole;
    } value;
};

// FAKE_NVML_FAULT: what a driver may answer. Codes of nvml.h.
static int is(const char *fault) {
    const char *asked = getenv("FAKE_NVML_FAULT");
    return asked && !strcmp(asked, fault);
}

int nvmlInit_v2(void) {
    if (is("not-loaded")) return 9;  // NVML_ERROR_DRIVER_NOT_LOADED
    if (is("mismatch")) return 18;   // NVML_ERROR_LIB_RM_VERSION_MISMATCH
    if (is("no-permission")) return 4; // NVML_ERROR_NO_PERMISSION
    return 0;
}
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = is("no-device") ? 0 : 1, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    // NVML_ERROR_GPU_IS_LOST, once this file is there.
    if (is("lost") && !access(getenv("FAKE_NVML_GONE"), F_OK)) return 15;
    return *device = (void *)&nvmlShutdown, index == 0 ? 0 : 2;
}
// Shares are in percent; a driver has been seen to say more.
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { return rates[0] = is("too-much") ? 250 : 50, rates[1] = 25, 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { return snprintf(name, length, "Counting GPU"), 0; }

int nvmlDeviceGetFieldValues(void *device, int count, struct field_value *values) {
    struct timeval now;
    gettimeofday(&now, 0);
    int64_t microseconds = now.tv_sec * 1000000ll + now.tv_usec;
    for (int at = 0; at < count; at++) {
        // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX, all links together; else NVML_ERROR_NOT_SUPPORTED.
        int known = (values[at].field == 138 || values[at].field == 139) && values[at].scope == ~0u;
        values[at].result = known ? 0 : 3;
        values[at].timestamp = microseconds;
        values[at].type = 3; // NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        values[at].value.whole = (unsigned long long)microseconds;
    }
    return 0;
}
