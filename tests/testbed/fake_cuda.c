// A GPU that computes nothing: the functions of the CUDA driver, NVRTC, cuBLASLt and NCCL that gpuplan calls, with a clock of
// their own. Launches move the clock by what an H100 would need, so that the whole path runs on a machine without a GPU.
// Built once for each library: -DDRIVER (the clock is here), -DCOMPILER, -DPRODUCTS, -DCOLLECTIVES.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern double fake_clock; // milliseconds

#ifdef DRIVER
double fake_clock = 0.0;
static uint64_t next_address = 1 << 20;
static int64_t live_memory = 0;

struct function {
    char name[32];
};

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDriverGetVersion(int *version) { return *version = 12040, 0; }
int cuDeviceGetCount(int *count) { return *count = 2, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal < 2 ? 0 : 101; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = 85017624576ull, 0; }

int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, (size_t)length, "NVIDIA H100 80GB HBM3");
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: return *value = 9, 0;   // compute capability, major
    case 76: return *value = 0, 0;   // and minor
    case 16: return *value = 132, 0; // multiprocessors
    default: return *value = 0, 0;   // the PCI address
    }
}

int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)(intptr_t)(device + 1), 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { return 0; }

int cuStreamCreate(void **stream, unsigned flags) { return *stream = malloc(1), 0; }
int cuStreamSynchronize(void *stream) { return stream ? 0 : 400; }
int cuStreamDestroy_v2(void *stream) { return free(stream), 0; }
static int captured = -1;
int cuStreamBeginCapture_v2(void *stream, int mode) { return captured = 0, 0; }
int cuStreamEndCapture(void *stream, void **graph) {
    int *nodes = malloc(sizeof *nodes);
    *nodes = captured, captured = -1, *graph = nodes;
    return 0;
}
int cuGraphInstantiateWithFlags(void **made, int *graph, unsigned long long flags) {
    int *nodes = malloc(sizeof *nodes);
    *nodes = *graph, *made = nodes;
    return 0;
}
int cuGraphLaunch(int *made, void *stream) { return fake_clock += *made * 0.0012, 0; }
int cuGraphDestroy(void *graph) { return free(graph), 0; }
int cuGraphExecDestroy(void *made) { return free(made), 0; }

int cuEventCreate(double **event, unsigned flags) { return *event = calloc(1, sizeof **event), 0; }
int cuEventRecord(double *event, void *stream) { return *event = fake_clock, 0; }
int cuEventSynchronize(double *event) { return event ? 0 : 400; }
int cuEventDestroy_v2(double *event) { return free(event), 0; }
int cuEventElapsedTime(float *milliseconds, double *begin, double *end) { return *milliseconds = (float)(*end - *begin), 0; }

// Addresses without memory behind them; the size is remembered in none, so only the balance is kept.
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    *address = next_address;
    next_address += (bytes + 511) / 256 * 256;
    live_memory++;
    return 0;
}
int cuMemFree_v2(uint64_t address) { return live_memory--, live_memory < 0 ? 1 : 0; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { return *memory = malloc(bytes), *memory ? 0 : 2; }
int cuMemFreeHost(void *memory) { return free(memory), 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t bytes, void *stream) { return fake_clock += 0.01 + bytes / 5e7, 0; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) { return fake_clock += 0.01 + bytes / 5e7, 0; }
int cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t from, void *here, size_t bytes, void *stream) {
    return fake_clock += 0.01 + bytes / 3e8, there != here ? 0 : 1;
}

int cuModuleLoadData(void **module, const char *image) { return *module = malloc(1), memcmp(image, "\x7f" "ELF", 4) ? 200 : 0; }
int cuModuleUnload(void *module) { return free(module), 0; }
int cuModuleGetFunction(struct function **function, void *module, const char *name) {
    *function = malloc(sizeof **function);
    snprintf((*function)->name, sizeof (*function)->name, "%s", name);
    return 0;
}

int cuLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    if (x == 0 || a != 256 || !stream) return 1;
    if (captured >= 0) return captured++, 0;
    if (!strcmp(function->name, "empty")) return fake_clock += 0.0025, 0;
    int copies = !strcmp(function->name, "stream_copy");
    if (copies || !strcmp(function->name, "stream_read")) {
        uint64_t words = *(uint64_t *)arguments[2];
        return fake_clock += 0.0025 + (double)words * 16 * (copies ? 2 : 1) / 2.9e9, 0;
    }
    return fake_clock += 0.1, 0;
}
#endif

#ifdef COMPILER
int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 9, 0; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, void *headers, void *names) {
    return *program = malloc(1), strstr(source, "__global__") ? 0 : 6;
}
int nvrtcCompileProgram(void *program, int count, const char **options) {
    return count > 0 && !strcmp(options[0], "--gpu-architecture=sm_90") ? 0 : 5;
}
int nvrtcGetCUBINSize(void *program, size_t *bytes) { return *bytes = 4, 0; }
int nvrtcGetCUBIN(void *program, char *code) { return memcpy(code, "\x7f" "ELF", 4), 0; }
int nvrtcGetProgramLogSize(void *program, size_t *bytes) { return *bytes = 1, 0; }
int nvrtcGetProgramLog(void *program, char *log) { return *log = 0, 0; }
int nvrtcDestroyProgram(void **program) { return free(*program), 0; }
#endif

#ifdef PRODUCTS
struct layout {
    uint64_t rows, columns;
    int batch;
};
struct description {
    int transposed[2];
};

size_t cublasLtGetVersion(void) { return 120405; }
int cublasLtCreate(void **handle) { return *handle = malloc(1), 0; }
int cublasLtDestroy(void *handle) { return free(handle), 0; }
int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    *layout = malloc(sizeof **layout);
    **layout = (struct layout){rows, columns, 1};
    return leading >= (int64_t)rows ? 0 : 7;
}
int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value, size_t bytes) {
    if (attribute == 5) layout->batch = *(const int *)value; // batch count
    return attribute == 5 || attribute == 6 ? 0 : 7;
}
int cublasLtMatrixLayoutDestroy(void *layout) { return free(layout), 0; }
int cublasLtMatmulDescCreate(void **description, int compute, int scale) {
    return *description = calloc(1, sizeof(struct description)), 0;
}
int cublasLtMatmulDescSetAttribute(struct description *description, int attribute, const void *value, size_t bytes) {
    if (attribute != 3 && attribute != 4) return 7;
    return description->transposed[attribute - 3] = *(const int *)value, bytes == 4 ? 0 : 7;
}
int cublasLtMatmulDescDestroy(void *description) { return free(description), 0; }
int cublasLtMatmulPreferenceCreate(void **preference) { return *preference = malloc(1), 0; }
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) { return 0; }
int cublasLtMatmulPreferenceDestroy(void *preference) { return free(preference), 0; }

// The three sizes have to meet: D (n x m) = A (n x k) B (k x m).
static int sizes_meet(struct description *d, struct layout *a, struct layout *b, struct layout *out) {
    uint64_t a_rows = d->transposed[0] ? a->columns : a->rows, a_columns = d->transposed[0] ? a->rows : a->columns;
    uint64_t b_rows = d->transposed[1] ? b->columns : b->rows, b_columns = d->transposed[1] ? b->rows : b->columns;
    return a_rows == out->rows && b_columns == out->columns && a_columns == b_rows && a->batch == out->batch && b->batch == out->batch;
}

struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
int cublasLtMatmulAlgoGetHeuristic(void *handle, struct description *d, struct layout *a, struct layout *b, struct layout *c,
                                   struct layout *out, void *preference, int wanted, struct heuristic *found, int *count) {
    memset(found, 0, sizeof *found);
    return *count = 1, sizes_meet(d, a, b, out) ? 0 : 7;
}
int cublasLtMatmul(void *handle, struct description *d, const float *alpha, const void *at, struct layout *a, const void *bt,
                   struct layout *b, const float *beta, const void *ct, struct layout *c, void *dt, struct layout *out,
                   const void *algorithm, void *workspace, size_t bytes, void *stream) {
    if (*alpha != 1.0f || *beta != 0.0f || !at || !bt || !dt || !stream || !sizes_meet(d, a, b, out)) return 7;
    double k = (double)a->rows * (double)a->columns / (double)out->rows;
    fake_clock += 0.0025 + 2.0 * out->batch * (double)out->rows * (double)out->columns * k / 6.5e11;
    return 0;
}
#endif

#ifdef COLLECTIVES
static int in_group = 0, asked = 0;
int ncclCommInitAll(void **communicators, int count, const int *devices) {
    for (int i = 0; i < count; i++) communicators[i] = malloc(1);
    return count == 2 && devices[1] == 1 ? 0 : 4;
}
int ncclCommDestroy(void *communicator) { return free(communicator), 0; }
int ncclGroupStart(void) { return in_group = 1, asked = 0, 0; }
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *communicator, void *stream) {
    if (!in_group || type != 9 || operation != 0 || !stream) return 4;
    if (asked++ == 0) fake_clock += 0.02 + (double)count * 2.0 / 3e8;
    return 0;
}
int ncclGroupEnd(void) { return in_group = 0, asked == 2 ? 0 : 5; }
#endif
