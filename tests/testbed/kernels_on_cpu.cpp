// The kernels of src/calibration/cuda/kernels as C++, a thread of the host for each of a block's, so that sanitizers prove their indices
// (-fsanitize=address,undefined: every array has its exact size) and their barriers (-fsanitize=thread). Results are compared with plain
// loops. Ends with 0, or says what differs.

#include <pthread.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4{x, y, z, w}; }
static float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
static unsigned __float_as_uint(float value) { unsigned bits; std::memcpy(&bits, &value, 4); return bits; }
static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
// glibc has these names for itself.
static float fast_exp(float x) { return std::exp(x); }
static float fast_log(float x) { return std::log(x); }
#define __expf fast_exp
#define __logf fast_log

struct Place {
    unsigned x;
};
static thread_local Place blockIdx, threadIdx;
static Place blockDim, gridDim;
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }

#define __device__ static
#define __global__
#define __shared__ static
// The one instruction that is written by hand: to half precision, of which the test needs no more than some bits.
#define asm(...) half = (unsigned short)(__float_as_uint(value) >> 16)
#include "basic.cu"
#include "training.cu"
#undef asm

// Blocks one after the other, since they share nothing but their arguments.
static void launch(unsigned blocks, const std::function<void()> &kernel) {
    blockDim.x = THREADS, gridDim.x = blocks;
    pthread_barrier_init(&barrier, nullptr, THREADS);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < THREADS; thread++) {
        threads.emplace_back([=, &kernel] {
            threadIdx.x = thread;
            for (unsigned block = 0; block < blocks; block++) {
                blockIdx.x = block;
                kernel();
                __syncthreads();
            }
        });
    }
    for (auto &thread : threads) thread.join();
    pthread_barrier_destroy(&barrier);
}

static int failures = 0;
static void expect(const char *what, unsigned long long at, double have, double wanted, double most) {
    if (std::fabs(have - wanted) <= most * (1.0 + std::fabs(wanted))) return;
    if (failures++ < 20) std::printf("%s at %llu: %g, not %g\n", what, at, have, wanted);
}

// Exactly so many bytes, so that one more is found.
template <typename T> struct Array {
    explicit Array(u64 count) : count(count), at((T *)std::aligned_alloc(16, (count * sizeof(T) + 15) / 16 * 16)) {}
    ~Array() { std::free(at); }
    u64 count;
    T *at;
};

// bf16 values from -1 to 1, eight to a group.
static Array<uint4> *values(u64 groups, unsigned seed) {
    auto *array = new Array<uint4>(groups);
    unsigned *words = (unsigned *)array->at;
    for (u64 at = 0; at < groups * 4; at++) words[at] = to_bf16(centred(draw(at, seed))) | to_bf16(centred(draw(at, seed) >> 16)) << 16;
    return array;
}
static double one(const uint4 *from, u64 at) {
    u16 bits;
    std::memcpy(&bits, (const char *)from + 2 * at, 2);
    return __uint_as_float((u32)bits << 16);
}

static void rows_of(unsigned rows, u32 groups) {
    u64 columns = 8ull * groups, all = (u64)rows * groups;
    Array<uint4> *in = values(all, 1);
    Array<uint4> out(all);
    Array<float> sums(rows), loss(rows);
    launch(rows, [&] { rms_norm(in->at, out.at, groups); });
    launch(rows, [&] { row_sum(in->at, sums.at, groups); });
    for (unsigned row = 0; row < rows; row++) {
        double squares = 0, sum = 0;
        for (u64 at = 0; at < columns; at++) squares += std::pow(one(in->at, row * columns + at), 2), sum += one(in->at, row * columns + at);
        double scale = 1.0 / std::sqrt(squares / columns + 1e-6);
        for (u64 at = row * columns; at < (row + 1) * columns; at++) expect("rms_norm", at, one(out.at, at), one(in->at, at) * scale, 0.01);
        expect("row_sum", row, sums.at[row], sum, 1e-3);
    }
    launch(rows, [&] { softmax(in->at, out.at, groups); });
    for (unsigned row = 0; row < rows; row++) {
        double total = 0;
        for (u64 at = 0; at < columns; at++) total += std::exp(one(in->at, row * columns + at));
        for (u64 at = row * columns; at < (row + 1) * columns; at++) expect("softmax", at, one(out.at, at), std::exp(one(in->at, at)) / total, 0.01);
    }
    launch(rows, [&] { cross_entropy(in->at, out.at, loss.at, groups); });
    for (unsigned row = 0; row < rows; row++) {
        double total = 0, gradient = 0;
        for (u64 at = 0; at < columns; at++) total += std::exp(one(in->at, row * columns + at)), gradient += one(out.at, row * columns + at);
        u64 label = row * columns + (row * 2654435761u) % (groups * 8);
        expect("cross_entropy", row, loss.at[row], std::log(total) - one(in->at, label), 0.02);
        expect("its gradient", row, gradient, 0, 0.1);
    }
    delete in;
}

static void stretch_of(u64 groups, unsigned blocks) {
    Array<uint4> *a = values(groups, 2), *b = values(groups, 3);
    Array<uint4> out(groups);
    launch(blocks, [&] { swiglu(a->at, b->at, out.at, groups); });
    for (u64 at = 0; at < groups * 8; at++) {
        double gate = one(a->at, at);
        expect("swiglu", at, one(out.at, at), gate / (1 + std::exp(-gate)) * one(b->at, at), 0.01);
    }
    launch(blocks, [&] { residual_add(a->at, b->at, out.at, groups); });
    for (u64 at = 0; at < groups * 8; at++) expect("residual_add", at, one(out.at, at), one(a->at, at) + one(b->at, at), 0.01);
    launch(blocks, [&] { stream_copy(a->at, out.at, groups); });
    expect("stream_copy", 0, groups ? std::memcmp(a->at, out.at, groups * 16) : 0, 0, 0);
    Array<u32> kept(THREADS);
    launch(blocks, [&] { stream_read(a->at, kept.at, groups); });
    u64 count = groups * 8;
    Array<float> master(count), first(count), second(count);
    Array<u16> weight(count);
    for (u64 at = 0; at < count; at++) master.at[at] = 0.5f, first.at[at] = 0.25f, second.at[at] = 0.125f;
    launch(blocks, [&] { adamw(master.at, first.at, second.at, (const u16 *)b->at, weight.at, count); });
    for (u64 at = 0; at < count; at++) {
        double g = one(b->at, at), m = 0.9 * 0.25 + 0.1 * g, v = 0.95 * 0.125 + 0.05 * g * g;
        expect("adamw", at, master.at[at], 0.5 - 3e-4 * (m / std::sqrt(v + 1e-12) + 0.05), 1e-5);
        expect("its weight", at, __uint_as_float((u32)weight.at[at] << 16), master.at[at], 0.01);
    }
    for (int kind = 0; kind < 4; kind++) launch(blocks, [&] { fill((u32 *)out.at, groups * 4, 7, kind); });
    delete a, delete b;
}

int main() {
    // Fewer groups than threads, as many, one more, and no multiple of anything.
    for (u32 groups : {1u, 3u, 255u, 256u, 257u, 1000u}) rows_of(3, groups);
    for (u64 groups : {0ull, 1ull, 255ull, 256ull, 257ull, 2049ull, 4099ull}) stretch_of(groups, 2);
    launch(1, [] { empty(); });
    return failures != 0;
}
