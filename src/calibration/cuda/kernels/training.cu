// Memory-bound kernels of training on bf16 values, eight at a time. bf16 is the upper half of fp32, so no header is needed.

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;

#define THREADS 256

__device__ float low(u32 pair) { return __uint_as_float(pair << 16); }
__device__ float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ u32 rounded(float value) {
    u32 bits = __float_as_uint(value);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

__device__ u32 pack(float first, float second) { return rounded(first) | rounded(second) << 16; }

// Sum over a block of THREADS; every thread gets it.
__device__ float block_sum(float value) {
    __shared__ float parts[THREADS];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    float sum = parts[0];
    __syncthreads();
    return sum;
}

__device__ float block_max(float value) {
    __shared__ float parts[THREADS];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    float most = parts[0];
    __syncthreads();
    return most;
}

// A block a row; `groups` of eight values.
extern "C" __global__ void rms_norm(const uint4 *in, uint4 *out, u32 groups) {
    const uint4 *row = in + (u64)blockIdx.x * groups;
    uint4 *to = out + (u64)blockIdx.x * groups;
    float squares = 0.0f;
    for (u32 at = threadIdx.x; at < groups; at += THREADS) {
        uint4 v = row[at];
        squares += low(v.x) * low(v.x) + high(v.x) * high(v.x) + low(v.y) * low(v.y) + high(v.y) * high(v.y);
        squares += low(v.z) * low(v.z) + high(v.z) * high(v.z) + low(v.w) * low(v.w) + high(v.w) * high(v.w);
    }
    float scale = rsqrtf(block_sum(squares) / (8.0f * groups) + 1e-6f);
    for (u32 at = threadIdx.x; at < groups; at += THREADS) {
        uint4 v = row[at];
        to[at] = make_uint4(pack(low(v.x) * scale, high(v.x) * scale), pack(low(v.y) * scale, high(v.y) * scale),
                            pack(low(v.z) * scale, high(v.z) * scale), pack(low(v.w) * scale, high(v.w) * scale));
    }
}

__device__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__device__ u32 gated(u32 gate, u32 value) { return pack(silu(low(gate)) * low(value), silu(high(gate)) * high(value)); }

extern "C" __global__ void swiglu(const uint4 *gate, const uint4 *value, uint4 *out, u64 groups) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < groups; at += step) {
        uint4 g = gate[at], v = value[at];
        out[at] = make_uint4(gated(g.x, v.x), gated(g.y, v.y), gated(g.z, v.z), gated(g.w, v.w));
    }
}

__device__ u32 sum_of(u32 a, u32 b) { return pack(low(a) + low(b), high(a) + high(b)); }

extern "C" __global__ void residual_add(const uint4 *a, const uint4 *b, uint4 *out, u64 groups) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < groups; at += step) {
        uint4 x = a[at], y = b[at];
        out[at] = make_uint4(sum_of(x.x, y.x), sum_of(x.y, y.y), sum_of(x.z, y.z), sum_of(x.w, y.w));
    }
}

extern "C" __global__ void row_sum(const uint4 *in, float *out, u32 groups) {
    const uint4 *row = in + (u64)blockIdx.x * groups;
    float sum = 0.0f;
    for (u32 at = threadIdx.x; at < groups; at += THREADS) {
        uint4 v = row[at];
        sum += low(v.x) + high(v.x) + low(v.y) + high(v.y) + low(v.z) + high(v.z) + low(v.w) + high(v.w);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Largest value and sum of exponentials of it and of those before, in one pass.
struct Online {
    float most;
    float sum;
};

__device__ void meet(Online *state, float x) {
    float most = fmaxf(state->most, x);
    state->sum = state->sum * __expf(state->most - most) + __expf(x - most);
    state->most = most;
}

__device__ u32 probabilities(u32 pair, float most, float scale) {
    return pack(__expf(low(pair) - most) * scale, __expf(high(pair) - most) * scale);
}

// Softmax of a row; with a label also its loss, and then the row's gradient: probabilities less one at the label.
__device__ void soft(const uint4 *row, uint4 *to, u32 groups, float *loss, u32 label) {
    Online state = {-1e30f, 0.0f};
    for (u32 at = threadIdx.x; at < groups; at += THREADS) {
        uint4 v = row[at];
        meet(&state, low(v.x)), meet(&state, high(v.x)), meet(&state, low(v.y)), meet(&state, high(v.y));
        meet(&state, low(v.z)), meet(&state, high(v.z)), meet(&state, low(v.w)), meet(&state, high(v.w));
    }
    float most = block_max(state.most);
    float sum = block_sum(state.sum * __expf(state.most - most));
    float scale = 1.0f / sum;
    for (u32 at = threadIdx.x; at < groups; at += THREADS) {
        uint4 v = row[at];
        to[at] = make_uint4(probabilities(v.x, most, scale), probabilities(v.y, most, scale), probabilities(v.z, most, scale),
                            probabilities(v.w, most, scale));
    }
    __syncthreads();
    if (loss && threadIdx.x == 0) {
        u16 *values = (u16 *)to;
        float share = __uint_as_float((u32)values[label] << 16);
        *loss = -__logf(share + 1e-30f);
        values[label] = (u16)rounded(share - 1.0f);
    }
}

extern "C" __global__ void softmax(const uint4 *in, uint4 *out, u32 groups) {
    soft(in + (u64)blockIdx.x * groups, out + (u64)blockIdx.x * groups, groups, 0, 0);
}

extern "C" __global__ void cross_entropy(const uint4 *logits, uint4 *gradient, float *loss, u32 groups) {
    u32 label = (blockIdx.x * 2654435761u) % (groups * 8);
    soft(logits + (u64)blockIdx.x * groups, gradient + (u64)blockIdx.x * groups, groups, loss + blockIdx.x, label);
}

// AdamW with decoupled decay: fp32 master and moments, bf16 gradient, bf16 weight.
extern "C" __global__ void adamw(float *master, float *first, float *second, const u16 *gradient, u16 *weight, u64 count) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
        float g = __uint_as_float((u32)gradient[at] << 16);
        float m = 0.9f * first[at] + 0.1f * g;
        float v = 0.95f * second[at] + 0.05f * g * g;
        float w = master[at];
        w -= 3e-4f * (m * rsqrtf(fabsf(v) + 1e-12f) + 0.1f * w);
        first[at] = m;
        second[at] = v;
        master[at] = w;
        weight[at] = (u16)rounded(w);
    }
}
