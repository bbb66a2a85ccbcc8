// A GPU that computes nothing: the functions of the CUDA driver, NVRTC, cuBLASLt and NCCL that gpuplan calls, with a clock of
// their own. Launches move the clock by what an H100 would need, so that the whole path runs on a machine without a GPU.
// Built once for each library: -DDRIVER (the clock is here), -DCOMPILER, -DPRODUCTS, -DCOLLECTIVES.
//
// It keeps the books of a real driver: which context is current, which handles and memory are alive, which events were recorded. What a
// real one would punish is a line `PROTOCOL ...` on stderr, and so is what is still alive when the program ends. FAKE_CUDA_FAULT
// names a failure; one of a running GPU is sticky, as it is on a real one. `call:cuMemAlloc_v2` lets every such call fail, and
// `call:cuMemAlloc_v2@5` from the fifth on. -DOLD leaves out the functions of CUDA graphs.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Whether this call is the one that was asked to fail.
static int refused(const char *call) {
    static int calls = 0;
    const char *asked = getenv("FAKE_CUDA_FAULT");
    if (!asked || strncmp(asked, "call:", 5)) return 0;
    size_t length = strcspn(asked + 5, "@");
    if (strlen(call) != length || strncmp(asked + 5, call, length)) return 0;
    return ++calls >= (asked[5 + length] ? atoi(asked + 6 + length) : 1);
}
// At the head of a call; what gives something back does so and complains after that.
#define CALL(code) if (refused(__func__)) return (code)
#define BACK(code, result) ({ int done = (result); refused(__func__) ? (code) : done; })

extern double fake_clock; // milliseconds
extern int fake_protocol(int is_kept, const char *what);
extern int fake_memory(uint64_t at, uint64_t bytes, uint64_t alignment, const char *what);
extern void *fake_make(char kind);
extern int fake_end(void *handle, char kind);
extern int fake_alive(void *handle, char kind);

#ifdef DRIVER
double fake_clock = 0.0;
static void *current = NULL;

static int fault(const char *name) {
    const char *asked = getenv("FAKE_CUDA_FAULT");
    return asked && !strcmp(asked, name);
}

// Whether a rule of the driver is kept; says so if not.
int fake_protocol(int is_kept, const char *what) {
    if (!is_kept) fprintf(stderr, "PROTOCOL %s\n", what);
    return is_kept;
}

static struct {
    uint64_t at, bytes;
    void *context;
    int is_alive;
} memory[4096];
static int memories = 0;

// Whether so many bytes are part of one living allocation, and begin where they may.
int fake_memory(uint64_t at, uint64_t bytes, uint64_t alignment, const char *what) {
    int is_inside = 0;
    for (int i = 0; i < memories; i++)
        is_inside |= memory[i].is_alive && at >= memory[i].at && at + bytes <= memory[i].at + memory[i].bytes;
    if (!is_inside || at % alignment)
        fprintf(stderr, "PROTOCOL %s: %llu bytes at %llu are no memory of the device\n", what, (unsigned long long)bytes, (unsigned long long)at);
    return is_inside && at % alignment == 0;
}

// A handle of a kind: s stream, e event, g graph, x its executable, m module, b cuBLASLt, l layout, d description, p preference, n NCCL.
static struct {
    void *handle;
    char kind;
} handles[4096];
static int made = 0;

void *fake_make(char kind) {
    void *handle = calloc(1, 64);
    handles[made].handle = handle, handles[made++].kind = kind;
    made %= 4096;
    return handle;
}

int fake_alive(void *handle, char kind) {
    for (int i = 0; i < 4096; i++)
        if (handles[i].handle == handle && handles[i].kind == kind) return 1;
    fprintf(stderr, "PROTOCOL a handle of kind %c that is not alive\n", kind);
    return 0;
}

int fake_end(void *handle, char kind) {
    if (!fake_alive(handle, kind)) return 0;
    for (int i = 0; i < 4096; i++)
        if (handles[i].handle == handle) handles[i].handle = NULL;
    return 1;
}

static int retained[3] = {0}, pinned = 0;

__attribute__((destructor)) static void at_the_end(void) {
    for (int i = 0; i < memories; i++)
        if (memory[i].is_alive) fprintf(stderr, "PROTOCOL %llu bytes were not freed\n", (unsigned long long)memory[i].bytes);
    for (int i = 0; i < 4096; i++)
        if (handles[i].handle) fprintf(stderr, "PROTOCOL a handle of kind %c was not given back\n", handles[i].kind);
    fake_protocol(!retained[1] && !retained[2], "a context was not released");
    fake_protocol(pinned == 0, "pinned memory was not freed");
}

// A failure of a running GPU: from the 200th wait on every call gives it.
static int waits = 0;
static int sticky(void) {
    if (waits < 200) return 0;
    return fault("ecc") ? 214 : fault("launch") ? 719 : fault("lost") ? 999 : 0;
}

struct function {
    char name[32];
};

int cuInit(unsigned flags) {
    CALL(1);
    if (fault("no-device")) return 100;
    if (fault("stub")) return 34;
    if (fault("mismatch")) return 803;
    return flags == 0 ? 0 : 1;
}
int cuDriverGetVersion(int *version) { CALL(1); return *version = 12040, 0; }
int cuDeviceGetCount(int *count) { CALL(1); return *count = 2, 0; }
int cuDeviceGet(int *device, int ordinal) { CALL(1); return *device = ordinal, ordinal < 2 ? 0 : 101; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { CALL(1); return *bytes = 85017624576ull, 0; }

int cuDeviceGetName(char *name, int length, int device) {
    CALL(1);
    snprintf(name, (size_t)length, "NVIDIA H100 80GB HBM3");
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL(1);
    switch (attribute) {
    case 75: return *value = 9, 0;   // compute capability, major
    case 76: return *value = 0, 0;   // and minor
    case 16: return *value = 132, 0; // multiprocessors
    default: return *value = 0, 0;   // the PCI address
    }
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    CALL(1);
    if (fault("exclusive")) return 46;
    return *context = (void *)(intptr_t)(device + 1), retained[device + 1]++, 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return BACK(1, (retained[device + 1]--, 0)); }
int cuCtxSetCurrent(void *context) { CALL(1); return current = context, context ? 0 : 201; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { CALL(1); return context != current ? 0 : 1; }

static int needs_context(const char *call) { return fake_protocol(current != NULL, call) ? sticky() : 201; }

int cuStreamCreate(void **stream, unsigned flags) { CALL(1); return *stream = fake_make('s'), needs_context("cuStreamCreate without a context"); }
int cuStreamSynchronize(void *stream) { CALL(1); return fake_alive(stream, 's') ? sticky() : 400; }
int cuStreamDestroy_v2(void *stream) { return BACK(1, (fake_end(stream, 's') ? 0 : 400)); }
static int captured = -1;
#ifndef OLD
int cuStreamBeginCapture_v2(void *stream, int mode) { CALL(1); return captured = 0, fake_alive(stream, 's') ? sticky() : 400; }
int cuStreamEndCapture(void *stream, void **graph) {
    int nodes = captured; // it is over, whatever comes of it
    captured = -1;
    CALL(1);
    int *made = fake_make('g');
    *made = nodes, *graph = made;
    return fake_alive(stream, 's') ? 0 : 400;
}
int cuGraphInstantiateWithFlags(void **made, int *graph, unsigned long long flags) {
    CALL(1);
    if (!fake_alive(graph, 'g')) return 400;
    int *nodes = fake_make('x');
    *nodes = *graph, *made = nodes;
    return 0;
}
int cuGraphLaunch(int *made, void *stream) {
    CALL(1);
    if (!fake_alive(made, 'x') || !fake_alive(stream, 's')) return 400;
    return fake_clock += *made * 0.0012, sticky();
}
int cuGraphDestroy(void *graph) { return BACK(1, (fake_end(graph, 'g') ? 0 : 400)); }
int cuGraphExecDestroy(void *made) { return BACK(1, (fake_end(made, 'x') ? 0 : 400)); }
#endif

// Time of the record, whether it was recorded, whether it was waited for.
int cuEventCreate(double **event, unsigned flags) { CALL(1); return *event = fake_make('e'), needs_context("cuEventCreate without a context"); }
int cuEventRecord(double *event, void *stream) {
    CALL(1);
    if (!fake_alive(event, 'e') || !fake_alive(stream, 's')) return 400;
    return event[0] = fake_clock, event[1] = 1, event[2] = 0, sticky();
}
int cuEventSynchronize(double *event) { CALL(1); return waits++, fake_alive(event, 'e') ? event[2] = 1, sticky() : 400; }
int cuEventDestroy_v2(double *event) { return BACK(1, (fake_end(event, 'e') ? 0 : 400)); }
int cuEventElapsedTime(float *milliseconds, double *begin, double *end) {
    CALL(1);
    if (!fake_alive(begin, 'e') || !fake_alive(end, 'e')) return 400;
    fake_protocol(begin[1] && end[1] && end[2] && *begin <= *end, "a time between events that have not passed");
    return *milliseconds = (float)(*end - *begin), sticky();
}

// Memory of the host behind every address, of which the system gives a page once it is touched; gone when it is freed.
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    CALL(1);
    if (fault("out-of-memory") && bytes > 64 << 20) return 2;
    int refused = needs_context("cuMemAlloc without a context");
    if (refused) return refused;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return 2;
    *address = (uint64_t)pages;
    memory[memories].at = *address, memory[memories].bytes = bytes, memory[memories].context = current, memory[memories++].is_alive = 1;
    return 0;
}
int cuMemFree_v2(uint64_t address) {
    for (int i = 0; i < memories; i++)
        if (memory[i].at == address && memory[i].is_alive) {
            fake_protocol(retained[(intptr_t)memory[i].context] > 0, "memory is freed after its context");
            return memory[i].is_alive = 0, BACK(1, munmap((void *)address, memory[i].bytes));
        }
    return fake_protocol(0, "memory is freed that is not alive"), 1;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    CALL(1);
    int refused = needs_context("cuMemHostAlloc without a context");
    return refused ? refused : (*memory = malloc(bytes), pinned++, *memory ? 0 : 2);
}
int cuMemFreeHost(void *memory) { return BACK(1, (pinned--, free(memory), 0)); }
// The first and the last page are moved: a sanitizer sees both ends, and gigabytes take no time.
static void move(void *to, const void *from, size_t bytes) {
    size_t page = bytes < 4096 ? bytes : 4096;
    memmove(to, from, page), memmove((char *)to + bytes - page, (const char *)from + bytes - page, page);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    CALL(1);
    if (!fake_memory(to, bytes, 1, "a copy to the device") || !fake_alive(stream, 's')) return 1;
    return move((void *)to, from, bytes), fake_clock += 0.01 + bytes / 5e7, sticky();
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    CALL(1);
    if (!fake_memory(from, bytes, 1, "a copy to the host") || !fake_alive(stream, 's')) return 1;
    return move(to, (void *)from, bytes), fake_clock += 0.01 + bytes / 5e7, sticky();
}
static void *context_of(uint64_t address) {
    for (int i = 0; i < memories; i++)
        if (memory[i].is_alive && address >= memory[i].at && address < memory[i].at + memory[i].bytes) return memory[i].context;
    return NULL;
}
int cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t from, void *here, size_t bytes, void *stream) {
    CALL(1);
    if (!fake_memory(to, bytes, 1, "a copy to a peer") || !fake_memory(from, bytes, 1, "a copy from a peer")) return 1;
    fake_protocol(context_of(to) == there && context_of(from) == here, "a peer copy names other contexts than those of its memory");
    move((void *)to, (void *)from, bytes);
    return fake_clock += 0.01 + bytes / 3e8, there != here ? sticky() : 1;
}

int cuModuleLoadData(void **module, const char *image) {
    CALL(1);
    return *module = fake_make('m'), memcmp(image, "\x7f" "ELF", 4) ? 200 : needs_context("cuModuleLoadData without a context");
}
int cuModuleUnload(void *module) { return BACK(1, (fake_end(module, 'm') ? 0 : 400)); }

// Kernels of src/calibration/cuda/kernels, and how many of their first parameters are addresses.
static const struct {
    const char *name;
    int pointers;
} kernels[] = {{"empty", 0}, {"fill", 1}, {"stream_copy", 2}, {"stream_read", 2}, {"softmax", 2}, {"rms_norm", 2}, {"row_sum", 2},
    {"swiglu", 3}, {"residual_add", 3}, {"cross_entropy", 3}, {"adamw", 5}};

static void check_arguments(const char *name, void **arguments) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(name, kernels[i].name)) continue;
        for (int at = 0; at < kernels[i].pointers; at++) fake_memory(*(uint64_t *)arguments[at], 2, 16, name);
        int is_stream = !strncmp(name, "stream_", 7);
        if (is_stream) fake_memory(*(uint64_t *)arguments[0], *(uint64_t *)arguments[2] * 16, 16, name);
        if (is_stream) fake_memory(*(uint64_t *)arguments[1], *(uint64_t *)arguments[2] * 16, 16, name);
        if (!strcmp(name, "fill")) fake_memory(*(uint64_t *)arguments[0], *(uint64_t *)arguments[1] * 4, 4, name);
        return;
    }
    fake_protocol(0, name);
}
int cuModuleGetFunction(struct function **function, void *module, const char *name) {
    CALL(1);
    *function = malloc(sizeof **function);
    snprintf((*function)->name, sizeof (*function)->name, "%s", name);
    return 0;
}

int cuLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    CALL(1);
    if (x == 0 || a != 256 || !fake_alive(stream, 's')) return 1;
    int refused = needs_context("cuLaunchKernel without a context");
    if (refused) return refused;
    check_arguments(function->name, arguments);
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
int nvrtcVersion(int *major, int *minor) { CALL(11); return *major = 12, *minor = 9, 0; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, void *headers, void *names) {
    CALL(11);
    return *program = malloc(1), strstr(source, "__global__") ? 0 : 6;
}
int nvrtcCompileProgram(void *program, int count, const char **options) {
    CALL(11);
    return count > 0 && !strcmp(options[0], "--gpu-architecture=sm_90") ? 0 : 5;
}
int nvrtcGetCUBINSize(void *program, size_t *bytes) { CALL(11); return *bytes = 4, 0; }
int nvrtcGetCUBIN(void *program, char *code) { CALL(11); return memcpy(code, "\x7f" "ELF", 4), 0; }
int nvrtcGetProgramLogSize(void *program, size_t *bytes) { CALL(11); return *bytes = 1, 0; }
int nvrtcGetProgramLog(void *program, char *log) { CALL(11); return *log = 0, 0; }
int nvrtcDestroyProgram(void **program) { return BACK(11, (free(*program), 0)); }
#endif

#ifdef PRODUCTS
struct layout {
    uint64_t rows, columns;
    int batch, type;
};
struct description {
    int transposed[2], compute;
};

size_t cublasLtGetVersion(void) { return 120405; }
int cublasLtCreate(void **handle) {
    CALL(14);
    const char *asked = getenv("FAKE_CUDA_FAULT");
    if (asked && !strcmp(asked, "cublas")) return 1; // not initialised
    return *handle = fake_make('b'), 0;
}
int cublasLtDestroy(void *handle) { return BACK(14, (fake_end(handle, 'b') ? 0 : 7)); }
int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    CALL(14);
    *layout = fake_make('l');
    **layout = (struct layout){rows, columns, 1, type};
    return leading >= (int64_t)rows ? 0 : 7;
}
int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value, size_t bytes) {
    CALL(14);
    if (attribute == 5) layout->batch = *(const int *)value; // batch count
    return attribute == 5 || attribute == 6 ? 0 : 7;
}
int cublasLtMatrixLayoutDestroy(void *layout) { return BACK(14, (fake_end(layout, 'l') ? 0 : 7)); }
int cublasLtMatmulDescCreate(struct description **description, int compute, int scale) {
    CALL(14);
    return *description = fake_make('d'), (*description)->compute = compute, 0;
}
int cublasLtMatmulDescSetAttribute(struct description *description, int attribute, const void *value, size_t bytes) {
    CALL(14);
    if (attribute != 3 && attribute != 4) return 7;
    return description->transposed[attribute - 3] = *(const int *)value, bytes == 4 ? 0 : 7;
}
int cublasLtMatmulDescDestroy(void *description) { return BACK(14, (fake_end(description, 'd') ? 0 : 7)); }
int cublasLtMatmulPreferenceCreate(void **preference) { CALL(14); return *preference = fake_make('p'), 0; }
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) { CALL(14); return 0; }
int cublasLtMatmulPreferenceDestroy(void *preference) { return BACK(14, (fake_end(preference, 'p') ? 0 : 7)); }

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
    CALL(14);
    memset(found, 0, sizeof *found);
    return *count = 1, sizes_meet(d, a, b, out) ? 0 : 7;
}
// Bytes of a value of cudaDataType.
static uint64_t width(int type) { return type == 0 ? 4 : type == 2 || type == 14 ? 2 : 1; }
static void held(const void *at, struct layout *matrix, const char *what) {
    fake_memory((uint64_t)at, matrix->rows * matrix->columns * (uint64_t)matrix->batch * width(matrix->type), 16, what);
}
int cublasLtMatmul(void *handle, struct description *d, const float *alpha, const void *at, struct layout *a, const void *bt,
                   struct layout *b, const float *beta, const void *ct, struct layout *c, void *dt, struct layout *out,
                   const void *algorithm, void *workspace, size_t bytes, void *stream) {
    CALL(14);
    if (*alpha != 1.0f || *beta != 0.0f || !at || !bt || !dt || !stream || !sizes_meet(d, a, b, out)) return 7;
    if (!fake_alive(handle, 'b') || !fake_alive(d, 'd') || !fake_alive(stream, 's')) return 7;
    held(at, a, "the first matrix"), held(bt, b, "the second matrix"), held(dt, out, "the result");
    fake_protocol(bytes == 0 || fake_memory((uint64_t)workspace, bytes, 256, "the workspace"), "a workspace without memory");
    double k = (double)a->rows * (double)a->columns / (double)out->rows;
    const char *asked = getenv("FAKE_CUDA_FAULT");
    // Operations a millisecond: in fp32 (CUBLAS_COMPUTE_32F of fp32 numbers), in tf32 (77), in 16 and 8 bits.
    double rate = a->type ? 6.5e11 : d->compute == 77 ? 3.3e11 : 4.5e10;
    if (asked && !strcmp(asked, "fast")) rate *= 10;
    fake_clock += 0.0025 + 2.0 * out->batch * (double)out->rows * (double)out->columns * k / rate;
    return 0;
}
#endif

#ifdef COLLECTIVES
static int in_group = 0, asked = 0;
int ncclCommInitAll(void **communicators, int count, const int *devices) {
    CALL(3);
    for (int i = 0; i < count; i++) communicators[i] = fake_make('n');
    return count == 2 && devices[1] == 1 ? 0 : 4;
}
int ncclCommDestroy(void *communicator) { return BACK(3, (fake_end(communicator, 'n') ? 0 : 4)); }
int ncclGroupStart(void) { CALL(3); return in_group = 1, asked = 0, 0; }
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *communicator, void *stream) {
    CALL(3);
    if (!in_group || type != 9 || operation != 0 || !fake_alive(stream, 's') || !fake_alive(communicator, 'n')) return 4;
    fake_memory((uint64_t)from, count * 2, 256, "the sent"), fake_memory((uint64_t)to, count * 2, 256, "the received");
    if (asked++ == 0) fake_clock += 0.02 + (double)count * 2.0 / 3e8;
    return 0;
}
int ncclGroupEnd(void) { CALL(3); return in_group = 0, asked == 2 ? 0 : 5; }
#endif
