// Exchange proposals: the last part of the CUDA engine's source, compiled after kernels.cu.
//
// A warp works on one row, a lane on one cluster. Floating point is plain double, in the order of core/moves.py, compiled
// without contraction, so the proposals are those of every other engine.

#define NOTHING __longlong_as_double(0xfff0000000000000ull)  // minus infinity

struct Moving {
    i64 n;
    int p, k, bits;
    i64 least;
    double threshold, unit;
};

// x log x times 2**bits, rounded: the series of `fixed_xlogx` in core/moves.py.
__device__ i64 fixed_xlogx(i64 x, int bits) {
    const double value = (double)(x < 1 ? 1 : x);
    int exponent;
    double fraction = frexp(value, &exponent);
    if (fraction < 0.7071067811865476) {
        fraction = fraction + fraction;
        --exponent;
    }
    const double s = (fraction - 1.0) / (fraction + 1.0), z = s * s;
    double r = 1.0 / 23;
#pragma unroll
    for (int i = 21; i > 0; i -= 2) r = r * z + 1.0 / i;
    const double log = (double)exponent * 0.6931471805599453 + (s + s) * r;
    return __double2ll_rn(value * log * scalbn(1.0, bits));
}

// Best (gain, lowest cluster) over a warp.
__device__ __forceinline__ void best_of_warp(double& gain, int& cluster) {
    for (int step = 16; step; step >>= 1) {
        const double other = __shfl_xor_sync(ALL, gain, step);
        const int its = __shfl_xor_sync(ALL, cluster, step);
        if (other > gain || (other == gain && its < cluster)) {
            gain = other;
            cluster = its;
        }
    }
}

// Whether a row may leave its cluster; fills its label and copies.
template <class LABEL>
__device__ __forceinline__ bool may_leave(const Moving& a, i64 row, const LABEL* labels, const u32* copies,
                                          const i64* sizes, int& own, i64& m) {
    own = labels[row];
    m = copies ? copies[row] : 1;
    return m > 0 && sizes[own] - m >= a.least;
}

// Tables are padded with a zero row per partition for missing labels: alpha (rows, k), cells (p, k).
template <class CODE, class LABEL>
__global__ void propose_density(const CODE* __restrict__ codes, const Moving a, const int* __restrict__ starts,
                                const u32* __restrict__ n_clusters, const LABEL* __restrict__ labels,
                                const u32* __restrict__ copies, const i64* __restrict__ alpha,
                                const i64* __restrict__ cells, const i64* __restrict__ sizes,
                                const i64* __restrict__ steps, const double* __restrict__ together,
                                const double* __restrict__ observed, const double* __restrict__ values, int* targets) {
    const int lane = threadIdx.x & 31;
    const i64 stride = ((i64)gridDim.x * blockDim.x) >> 5;
    for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) >> 5; row < a.n; row += stride) {
        int own, best = 0x7fffffff;
        i64 m;
        double top = NOTHING, leave = 0.0;
        if (may_leave(a, row, labels, copies, sizes, own, m)) {
            const double by = (double)m;
            for (int base = 0; base < a.k; base += 32) {
                const int c = base + lane;
                if (c >= a.k) break;
                i64 with_item = 0, pairs = 0, weight = 0;
#pragma unroll 4
                for (int j = 0; j < a.p; ++j) {
                    const u32 code = __ldg(codes + row * a.p + j);
                    if (code >= __ldg(n_clusters + j)) continue;
                    with_item += __ldg(alpha + (i64)(__ldg(starts + j) + (int)code) * a.k + c);
                    pairs += __ldg(cells + (i64)j * a.k + c);
                    weight += __ldg(steps + j);
                }
                const double x = (double)with_item, y = (double)pairs, w = (double)weight;
                double num, den;
                if (c == own) {
                    const double less = (by + 1.0) * w;
                    num = together[c] - (by * (2.0 * x - less)) * a.unit;
                    den = observed[c] - (by * (2.0 * y - less)) * a.unit;
                    leave = ((double)sizes[c] - by) * (den > 0.0 ? num / den : 0.0) - values[c];
                } else if (sizes[c] > 0 || m >= a.least) {
                    const double more = (by - 1.0) * w;
                    num = together[c] + (by * (2.0 * x + more)) * a.unit;
                    den = observed[c] + (by * (2.0 * y + more)) * a.unit;
                    const double enter = ((double)sizes[c] + by) * (den > 0.0 ? num / den : 0.0) - values[c];
                    if (enter > top) {
                        top = enter;
                        best = c;
                    }
                }
            }
            leave = __shfl_sync(ALL, leave, own & 31);
            best_of_warp(top, best);
        }
        if (lane == 0) targets[row] = leave + top > a.threshold ? best : -1;
    }
}

struct AgreementTables {  // alpha, enter, leave (rows, k); cells and theirs (p, k); the others (p,)
    const i64 *alpha, *cells, *enter, *leave, *enter_cells, *leave_cells, *shared, *entropy;
    const double *twice, *values;
};

// Change of the agreement with partition j when m items at row `line` of its table move from cluster `own` to c.
__device__ __forceinline__ double agreement_change(const AgreementTables& t, int k, int bits, int j, i64 line, int own,
                                                   int c, i64 m) {
    const i64 here = line * k, cell = (i64)j * k;
    i64 joint, kept;
    if (m == 1) {
        joint = __ldg(t.enter + here + c) + __ldg(t.leave + here + own);
        kept = __ldg(t.enter_cells + cell + c) + __ldg(t.leave_cells + cell + own);
    } else {
        const i64 to = t.alpha[here + c], from = t.alpha[here + own], in = t.cells[cell + c], out = t.cells[cell + own];
        joint = (fixed_xlogx(to + m, bits) - fixed_xlogx(to, bits)) +
                (fixed_xlogx(from - m, bits) - fixed_xlogx(from, bits));
        kept = (fixed_xlogx(in + m, bits) - fixed_xlogx(in, bits)) +
               (fixed_xlogx(out - m, bits) - fixed_xlogx(out, bits));
    }
    const i64 common = t.shared[j] + joint - kept, spread = t.entropy[j] - kept;
    const double term = spread == 0 ? 0.5 * t.twice[j] : t.twice[j] * (double)common / (double)spread;
    return term - t.values[j];
}

// `agreement_change` of single items, (own, rows, k): a table look-up in place of a division. 0 for missing labels.
__global__ void tabulate_agreement(const Moving a, const int* __restrict__ starts, const u32* __restrict__ n_clusters,
                                   const AgreementTables t, i64 rows, double* changes) {
    const i64 step = (i64)gridDim.x * blockDim.x, cells = rows * a.k * a.k;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += step) {
        const i64 line = i / a.k % rows;
        int j = a.p - 1;
        while (starts[j] > line) --j;
        const int c = (int)(i % a.k), own = (int)(i / a.k / rows);
        changes[i] = line - starts[j] < n_clusters[j] ? agreement_change(t, a.k, a.bits, j, line, own, c, 1) : 0.0;
    }
}

// `changes` may be null; rows of several items do not use it.
template <class CODE, class LABEL>
__global__ void propose_agreement(const CODE* __restrict__ codes, const Moving a, const int* __restrict__ starts,
                                  const u32* __restrict__ n_clusters, const LABEL* __restrict__ labels,
                                  const u32* __restrict__ copies, const i64* __restrict__ sizes, const AgreementTables t,
                                  i64 rows, const double* __restrict__ changes, int* targets) {
    const int lane = threadIdx.x & 31;
    const i64 stride = ((i64)gridDim.x * blockDim.x) >> 5;
    for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) >> 5; row < a.n; row += stride) {
        int own, best = 0x7fffffff;
        i64 m;
        double top = NOTHING;
        if (may_leave(a, row, labels, copies, sizes, own, m)) {
            const double* known = changes && m == 1 ? changes + own * rows * a.k : nullptr;
            for (int base = 0; base < a.k; base += 32) {
                const int c = base + lane;
                if (c >= a.k || c == own || (sizes[c] == 0 && m < a.least)) continue;
                double gain = 0.0;
#pragma unroll 4
                for (int j = 0; j < a.p; ++j) {
                    const u32 code = __ldg(codes + row * a.p + j);
                    if (code >= __ldg(n_clusters + j)) continue;
                    const i64 line = __ldg(starts + j) + (int)code;
                    gain += known ? __ldg(known + line * a.k + c) : agreement_change(t, a.k, a.bits, j, line, own, c, m);
                }
                if (gain > top) {
                    top = gain;
                    best = c;
                }
            }
            best_of_warp(top, best);
        }
        if (lane == 0) targets[row] = top > a.threshold ? best : -1;
    }
}
