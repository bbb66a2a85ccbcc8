// Random operands, memory streams and an empty kernel. No header is included: the compiler's own package has none.

typedef unsigned int u32;
typedef unsigned long long u64;

// A hash of the position: every word is its own draw (Mueller's integer hash, two rounds).
__device__ u32 draw(u64 at, u32 seed) {
    u32 x = (u32)(at ^ (at >> 32)) * 0x9E3779B9u + seed;
    x = ((x >> 16) ^ x) * 0x45d9f3bu;
    x = ((x >> 16) ^ x) * 0x45d9f3bu;
    return (x >> 16) ^ x;
}

// 16 random bits as a number from -1 to 1.
__device__ float centred(u32 bits) { return (float)(bits & 0xffffu) / 32768.0f - 1.0f; }

__device__ u32 to_bf16(float value) {
    u32 bits = __float_as_uint(value);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

__device__ u32 to_fp16(float value) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

// A byte of e4m3 without the pattern of not-a-number: exponents 3 to 10.
__device__ u32 to_e4m3(u32 bits) { return (bits & 0x87u) | (((bits >> 3 & 7u) + 3u) << 3); }

// kind: 0 fp32, 1 bf16, 2 fp16, 3 e4m3.
extern "C" __global__ void fill(u32 *out, u64 words, u32 seed, int kind) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += step) {
        u32 random = draw(at, seed);
        u32 word;
        if (kind == 0) {
            word = __float_as_uint(centred(random >> 8));
        } else if (kind == 1) {
            word = to_bf16(centred(random)) | to_bf16(centred(random >> 16)) << 16;
        } else if (kind == 2) {
            word = to_fp16(centred(random)) | to_fp16(centred(random >> 16)) << 16;
        } else {
            word = to_e4m3(random & 0xffu) | to_e4m3(random >> 8 & 0xffu) << 8 | to_e4m3(random >> 16 & 0xffu) << 16 | to_e4m3(random >> 24) << 24;
        }
        out[at] = word;
    }
}

// Four words at once, four times in flight. The sum is written where it has one value among four billion, so that the
// reads are not optimised away.
extern "C" __global__ void stream_read(const uint4 *in, u32 *out, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u32 sum = 0;
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at + 3 * step < count; at += 4 * step) {
        uint4 a = in[at], b = in[at + step], c = in[at + 2 * step], d = in[at + 3 * step];
        sum += (a.x ^ a.y ^ a.z ^ a.w) + (b.x ^ b.y ^ b.z ^ b.w) + (c.x ^ c.y ^ c.z ^ c.w) + (d.x ^ d.y ^ d.z ^ d.w);
    }
    for (; at < count; at += step) {
        uint4 a = in[at];
        sum += a.x ^ a.y ^ a.z ^ a.w;
    }
    if (sum == 0x9E3779B9u) out[threadIdx.x] = sum;
}

extern "C" __global__ void stream_copy(const uint4 *in, uint4 *out, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at + 3 * step < count; at += 4 * step) {
        uint4 a = in[at], b = in[at + step], c = in[at + 2 * step], d = in[at + 3 * step];
        out[at] = a;
        out[at + step] = b;
        out[at + 2 * step] = c;
        out[at + 3 * step] = d;
    }
    for (; at < count; at += step) out[at] = in[at];
}

extern "C" __global__ void empty() {}
