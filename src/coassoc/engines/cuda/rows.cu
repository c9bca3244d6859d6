// Seeding, compaction and overlap: the second half of the CUDA engine's source, compiled after kernels.cu.

// -- k-means++ ---------------------------------------------------------------------------------------------
//
// The distance of two rows is the sum of integer weights over partitions that label both, differently, and of
// weight / ONE_SIDED over partitions that label only one of the two.
// `sums[b]` holds the sum of copies * distance over rows b * SEED_ROWS .. (b + 1) * SEED_ROWS.

template <int N, int M> struct Seeds {  // M rows of N words of byte codes
    u32 row[M][N], seen[M][N];          // seen: 0x80 in each byte whose label is present
    u32 missing[N];                     // k_j in each byte
};

template <bool MISSING> struct DistanceType { typedef u8 type; };
template <> struct DistanceType<true> { typedef u16 type; };
template <bool MISSING> using Distance = typename DistanceType<MISSING>::type;

// Bit 7 of each byte: whether a and b differ there; other bits are undefined. LOW: no byte has its own bit 7 set.
template <bool LOW> __device__ __forceinline__ u32 differing(u32 a, u32 b) {
    const u32 x = a ^ b;
    return LOW ? x + 0x7f7f7f7fu : ((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x;
}

// Equal weights, byte codes, whole words: four partitions per compare. The weights are 1; MISSING: ONE_SIDED, with
// distances of two bytes. ADD: take row 0 and update `dist`.
// Otherwise: `sums[m]` += the total that taking row m would leave.
// STAGED: a warp fetches 128 rows in 16-byte steps and passes them to its lanes through shared memory.
template <int N, int M, bool MISSING, bool ADD, bool FIRST, bool STAGED, bool LOW>
__global__ void __launch_bounds__(256, 4)
seed_bytes(const u32* __restrict__ codes, i64 n, const Seeds<N, M> s, Distance<MISSING>* dist,
           const u32* __restrict__ copies, u64* sums) {
    __shared__ u64 scratch[32];
    __shared__ uint4 stage[STAGED ? 8 * 32 * N : 1];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    uint4* mine = stage + (STAGED ? warp * 32 * N : 0);
    u64 total[M];
#pragma unroll
    for (int m = 0; m < M; ++m) total[m] = 0;
    for (i64 block = blockIdx.x; block * SEED_ROWS < n; block += gridDim.x) {
        u32 plain[M];  // at most 32 rows of at most 128 * ONE_SIDED each: no overflow
#pragma unroll
        for (int m = 0; m < M; ++m) plain[m] = 0;
        for (i64 base = block * SEED_ROWS + warp * 128; base < min(n, (block + 1) * SEED_ROWS); base += 8 * 128) {
            const bool whole = STAGED && base + 128 <= n;
            if (whole) {
                const uint4* from = reinterpret_cast<const uint4*>(codes + base * N);
                uint4 piece[N];
#pragma unroll
                for (int i = 0; i < N; ++i) piece[i] = __ldg(from + i * 32 + lane);
                __syncwarp();
#pragma unroll
                for (int i = 0; i < N; ++i) mine[i * 32 + lane] = piece[i];
                __syncwarp();
            }
#pragma unroll(M > 1 ? 1 : 4)
            for (int part = 0; part < 4; ++part) {
                const i64 row = base + part * 32 + lane;
                if (row >= n) break;
                u32 word[N], apart[M];
#pragma unroll
                for (int i = 0; i < N; ++i)
                    word[i] = whole ? reinterpret_cast<u32*>(mine)[(part * 32 + lane) * N + i] : __ldg(codes + row * N + i);
#pragma unroll
                for (int m = 0; m < M; ++m) apart[m] = 0;
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    const u32 present = MISSING ? differing<LOW>(word[i], s.missing[i]) : 0;
#pragma unroll
                    for (int m = 0; m < M; ++m) {
                        u32 flags = differing<LOW>(word[i], s.row[m][i]) & s.seen[m][i];
                        if (MISSING) {
                            flags &= present;
                            apart[m] = __dp4a((s.seen[m][i] ^ present) & 0x80808080u, 0x01010101u, apart[m]);
                        }
                        apart[m] = __dp4a(flags, MISSING ? ONE_SIDED * 0x01010101u : 0x01010101u, apart[m]);
                    }
                }
                const u32 now = FIRST ? ~0u : dist[row];
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    const u32 nearer = min(now, apart[m] >> 7);
                    if (ADD) dist[row] = nearer;
                    if (copies) total[m] += nearer * (u64)copies[row];
                    else plain[m] += nearer;
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M; ++m) total[m] += plain[m];
        if (ADD) {
            const u64 sum = block_sum(total[0], scratch);
            if (threadIdx.x == 0) sums[block] = sum;
            total[0] = 0;
        }
    }
    if (!ADD)
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const u64 sum = block_sum(total[m], scratch);
            if (threadIdx.x == 0) atomicAdd(sums + m, sum);
        }
}

// The same for any code type, row length, weights and number of rows. Shared memory: m totals.
template <class CODE, class DIST, bool ADD, bool FIRST>
__global__ void seed_any(const CODE* __restrict__ codes, i64 n, int p, const CODE* __restrict__ chosen, int m,
                         const u32* __restrict__ weights, const u32* __restrict__ n_clusters, DIST* dist,
                         const u32* __restrict__ copies, u64* sums) {
    __shared__ u64 scratch[32];
    for (i64 block = blockIdx.x; block * SEED_ROWS < n; block += gridDim.x) {
        const i64 end = min(n, (block + 1) * SEED_ROWS);
        for (int c = 0; c < m; ++c) {
            const CODE* row_c = chosen + (i64)c * p;
            u64 total = 0;
            for (i64 row = block * SEED_ROWS + threadIdx.x; row < end; row += blockDim.x) {
                const CODE* here = codes + row * p;
                u32 apart = 0;
                for (int j = 0; j < p; ++j) {
                    const u32 a = __ldg(here + j), b = __ldg(row_c + j), k = __ldg(n_clusters + j);
                    if (a != b) apart += __ldg(weights + j) / (a < k && b < k ? 1 : ONE_SIDED);
                }
                const u32 nearer = FIRST ? apart : min((u32)dist[row], apart);
                if (ADD) dist[row] = nearer;
                total += nearer * (u64)(copies ? copies[row] : 1);
            }
            total = block_sum(total, scratch);
            if (threadIdx.x == 0) {
                if (ADD) sums[block] = total;
                else atomicAdd(sums + c, total);
            }
        }
    }
}

// Copies of each block of SEED_ROWS rows, for draws before the first row is chosen.
__global__ void sum_copies(const u32* __restrict__ copies, i64 n, u64* sums) {
    __shared__ u64 scratch[32];
    for (i64 block = blockIdx.x; block * SEED_ROWS < n; block += gridDim.x) {
        u64 total = 0;
        for (i64 row = block * SEED_ROWS + threadIdx.x; row < min(n, (block + 1) * SEED_ROWS); row += blockDim.x)
            total += copies[row];
        total = block_sum(total, scratch);
        if (threadIdx.x == 0) sums[block] = total;
    }
}

// Running sums of up to any number of entries, in place: one block of 1024 threads, 1024 entries at a time.
__global__ void run_sums(u64* sums, i64 n) {
    __shared__ u64 ends[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u64 before = 0;
    for (i64 base = 0; base < n; base += 1024) {
        u64 until = base + threadIdx.x < n ? sums[base + threadIdx.x] : 0;
        for (int step = 1; step < 32; step <<= 1) {
            const u64 lower = __shfl_up_sync(ALL, until, step);
            if (lane >= step) until += lower;
        }
        if (lane == 31) ends[warp] = until;
        __syncthreads();
        for (int w = 0; w < 32; ++w) {
            if (w < warp) until += ends[w];
        }
        until += before;
        for (int w = 0; w < 32; ++w) before += ends[w];
        if (base + threadIdx.x < n) sums[base + threadIdx.x] = until;
        __syncthreads();
    }
}

struct Targets { i64 at[8]; };  // by value: a copy to the GPU takes longer than the search

// Row where the running sum of copies * distance first exceeds each target: one block of 1024 threads a target.
// Targets that do not fit `few` lie in `many`. The row's codes are copied to `out`.
template <class DIST, bool FIRST, class CODE>
__global__ void locate_rows(const i64* __restrict__ running, i64 blocks, const Targets few, const i64* __restrict__ many,
                            i64 n, const DIST* __restrict__ dist, const u32* __restrict__ copies,
                            const CODE* __restrict__ codes, int p, CODE* out) {
    constexpr int EACH = SEED_ROWS / 1024;
    __shared__ u64 ends[32];
    __shared__ i64 chosen;
    const i64 target = many ? many[blockIdx.x] : few.at[blockIdx.x];
    i64 low = 0, high = blocks - 1;  // first block whose running sum exceeds the target
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (running[middle] > target) high = middle;
        else low = middle + 1;
    }
    const u64 rest = target - (low ? running[low - 1] : 0);
    const i64 base = low * SEED_ROWS + threadIdx.x * EACH;
    u64 sum = 0;
    for (i64 row = base; row < min(n, base + EACH); ++row) sum += (FIRST ? 1 : dist[row]) * (u64)(copies ? copies[row] : 1);
    u64 until = sum;
    const int lane = threadIdx.x & 31;
    for (int step = 1; step < 32; step <<= 1) {
        const u64 before = __shfl_up_sync(ALL, until, step);
        if (lane >= step) until += before;
    }
    if (lane == 31) ends[threadIdx.x >> 5] = until;
    if (threadIdx.x == 0) chosen = 0;
    __syncthreads();
    for (int w = 0; w < (threadIdx.x >> 5); ++w) until += ends[w];
    u64 at = until - sum;
    if (at <= rest && until > rest) {  // one thread
        i64 row = base;
        for (; row < min(n, base + EACH); ++row) {
            at += (FIRST ? 1 : dist[row]) * (u64)(copies ? copies[row] : 1);
            if (at > rest) break;
        }
        chosen = row;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < p; j += blockDim.x) out[(i64)blockIdx.x * p + j] = codes[chosen * p + j];
}

// -- subsets -----------------------------------------------------------------------------------------------

// Rows with label `cluster` in each block of COMPACT_ROWS.
template <class LABEL> __global__ void compact_counts(const LABEL* __restrict__ labels, i64 n, u32 cluster, i64* counts) {
    __shared__ u64 scratch[32];
    u64 mine = 0;
    const i64 base = (i64)blockIdx.x * COMPACT_ROWS;
    for (i64 row = base + threadIdx.x; row < min(n, base + COMPACT_ROWS); row += blockDim.x) mine += labels[row] == cluster;
    mine = block_sum(mine, scratch);
    if (threadIdx.x == 0) counts[blockIdx.x] = mine;
}

// Copy the rows of `cluster`, in order: block b writes before ends[b], the running counts. 1024 threads.
template <class CODE, class LABEL>
__global__ void compact_rows(const CODE* __restrict__ codes, i64 n, int p, const LABEL* __restrict__ labels,
                             u32 cluster, const i64* __restrict__ ends, const u32* __restrict__ ids,
                             const u32* __restrict__ copies, CODE* out_codes, u32* out_ids, u32* out_copies) {
    __shared__ int found[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    i64 place = blockIdx.x ? ends[blockIdx.x - 1] : 0;
    for (int part = 0; part < COMPACT_ROWS / 1024; ++part) {
        const i64 row = (i64)blockIdx.x * COMPACT_ROWS + part * 1024 + threadIdx.x;
        const bool mine = row < n && labels[row] == cluster;
        const u32 mask = __ballot_sync(ALL, mine);
        if (lane == 0) found[warp] = __popc(mask);
        __syncthreads();
        int before = __popc(mask & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < 32; ++w) {
            if (w < warp) before += found[w];
            all += found[w];
        }
        if (mine) {
            const i64 to = place + before;
            for (int j = 0; j < p; ++j) out_codes[to * p + j] = codes[row * p + j];
            out_ids[to] = ids ? ids[row] : (u32)row;
            if (copies) out_copies[to] = copies[row];
        }
        place += all;
        __syncthreads();
    }
}

// Labels of the rows `ids`: `first`, plus their own one where `own` is given.
template <class OWN, class LABEL>
__global__ void scatter_labels(const u32* __restrict__ ids, i64 n, int first, const OWN* __restrict__ own, LABEL* labels) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        labels[ids[i]] = (LABEL)(first + (own ? (int)own[i] : 0));
}

template <class LABEL, class OUT>
__global__ void map_labels(const LABEL* __restrict__ labels, i64 n, const OUT* __restrict__ numbers, OUT* out) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) out[i] = numbers[labels[i]];
}

// Whether any partition labels each row; rows without any label are marked 0 in `copies`.
template <class CODE>
__global__ void mark_unlabelled(const CODE* __restrict__ codes, i64 n, int p, const u32* __restrict__ n_clusters, u32* copies, u64* unlabelled) {
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n; row += (i64)gridDim.x * blockDim.x) {
        bool seen = false;
        for (int j = 0; j < p && !seen; ++j) seen = codes[row * p + j] < n_clusters[j];
        if (seen) continue;
        atomicAdd(unlabelled, 1ull);
        if (copies) copies[row] = 0;
    }
}

// -- overlap -----------------------------------------------------------------------------------------------

struct Pair { int first, second, width; u32 at; };  // counts of (a, b) are at `at + a * width + b`, missing ones included

// Sums over each pair of base clusters for some pairs of partitions, of `factor` (null: 1) of each row: copies (u32) or
// shares (u64). SHARED: gathered per block.
template <class CODE, class SUM, bool SHARED>
__global__ void overlap_rows(const CODE* __restrict__ codes, i64 n, int p, const Pair* __restrict__ pairs, int n_pairs,
                             u32 origin, u32 cells, const SUM* __restrict__ factor, SUM* out) {
    extern __shared__ u64 pair_sums[];
    SUM* sums = SHARED ? (SUM*)pair_sums : out + origin;
    if (SHARED) {
        for (u32 i = threadIdx.x; i < cells; i += blockDim.x) sums[i] = 0;
        __syncthreads();
    }
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n; row += (i64)gridDim.x * blockDim.x) {
        const CODE* here = codes + row * p;
        const SUM weight = factor ? factor[row] : 1;
        for (int i = 0; i < n_pairs; ++i) {
            const Pair pair = pairs[i];
            atomicAdd(sums + pair.at - origin + (u32)__ldg(here + pair.first) * pair.width + (u32)__ldg(here + pair.second), weight);
        }
    }
    if (SHARED) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < cells; i += blockDim.x)
            if (sums[i]) atomicAdd(out + origin + i, sums[i]);
    }
}

// What each row counts in a weighted overlap: copies * min(2**bits / (sum of its labels' units), most); 0 without a label.
template <class CODE>
__global__ void row_shares(const CODE* __restrict__ codes, i64 n, int p, const int* __restrict__ starts,
                           const u64* __restrict__ units, int bits, u64 most, const u32* __restrict__ copies, u64* shares) {
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n; row += (i64)gridDim.x * blockDim.x) {
        u64 sum = 0;
        for (int j = 0; j < p; ++j) sum += __ldg(units + __ldg(starts + j) + (int)__ldg(codes + row * p + j));
        const u64 whole = sum ? (1ull << bits) / sum : 0, share = whole < most ? whole : most;
        shares[row] = copies ? copies[row] * share : share;
    }
}

// How often each code of partition j occurs, at starts[j] + code; codes above k_j raise `bad`. Shared: `cells` counts.
template <class CODE, bool SHARED>
__global__ void count_codes(const CODE* __restrict__ codes, i64 n, int p, const int* __restrict__ starts,
                            const u32* __restrict__ n_clusters, int cells, u32* out, u32* bad) {
    extern __shared__ u32 memory[];
    u32* counts = SHARED ? memory : out;
    if (SHARED) {
        for (int i = threadIdx.x; i < cells; i += blockDim.x) memory[i] = 0;
        __syncthreads();
    }
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n; row += (i64)gridDim.x * blockDim.x)
        for (int j = 0; j < p; ++j) {
            const u32 code = __ldg(codes + row * p + j);
            if (code > __ldg(n_clusters + j)) atomicMax(bad, (u32)j + 1);
            else atomicAdd(counts + __ldg(starts + j) + (int)code, 1u);
        }
    if (SHARED) {
        __syncthreads();
        for (int i = threadIdx.x; i < cells; i += blockDim.x)
            if (memory[i]) atomicAdd(out + i, memory[i]);
    }
}
