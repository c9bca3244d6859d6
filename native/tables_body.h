// Arithmetic on tables of counts and scores. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

// A count, 0 <= x < 2**52, as a double: exact, and unlike a plain cast done on whole vectors by every CPU.
inline double as_double(int64_t x) {
    const int64_t bits = x | 0x4330000000000000;
    double above;
    memcpy(&above, &bits, 8);
    return above - 4503599627370496.0;
}

// Sums of W columns out of k, kept in registers on the way down. When they are all columns, R rows are taken at a
// time, so that two columns (every split of a tree) fill a register too.
template <int W, int R>
void sum_columns(const int64_t* alpha, int64_t n, int64_t k, int64_t* cells, int64_t* squares) {
    int64_t sum[W * R] = {0}, square[W * R] = {0};
    const auto add = [&](const int64_t* from, int count) {
        for (int c = 0; c < count; ++c) {
            sum[c] += from[c];
            square[c] += (int64_t)((uint64_t)(uint32_t)from[c] * (uint64_t)(uint32_t)from[c]);  // counts < 2**32
        }
    };
    int64_t f = 0;
    for (; f + R <= n; f += R, alpha += R * k) add(alpha, W * R);
    for (; f < n; ++f, alpha += k) add(alpha, W);
    for (int c = 0; c < W; ++c) {
        cells[c] = squares[c] = 0;
        for (int r = 0; r < R; ++r) cells[c] += sum[r * W + c], squares[c] += square[r * W + c];
    }
}

void sum_rows(const int64_t* alpha, int64_t n, int64_t k, int64_t* cells, int64_t* squares) {
    if (k == 2) return sum_columns<2, 4>(alpha, n, k, cells, squares);
    int64_t c = 0;
    for (; c + 8 <= k; c += 8) sum_columns<8, 1>(alpha + c, n, k, cells + c, squares + c);
    for (; c + 4 <= k; c += 4) sum_columns<4, 1>(alpha + c, n, k, cells + c, squares + c);
    for (; c < k; ++c) sum_columns<1, 1>(alpha + c, n, k, cells + c, squares + c);
}

double score_rows(const int64_t* alpha, int64_t n, int64_t k, const double* size, const double* penalty, double weight,
                  double* scores) {
    if (k == 2) {  // four rows at a time
        double sizes[8], penalties[8];
        for (int c = 0; c < 8; ++c) sizes[c] = size[c % 2], penalties[c] = penalty[c % 2];
        int64_t i = 0;
        for (; i + 8 <= 2 * n; i += 8)
            for (int c = 0; c < 8; ++c) scores[i + c] = 2.0 * as_double(alpha[i + c]) / sizes[c] - penalties[c];
        for (; i < 2 * n; ++i) scores[i] = 2.0 * as_double(alpha[i]) / size[i % 2] - penalty[i % 2];
    } else {
        for (int64_t f = 0; f < n; ++f)
            for (int64_t c = 0; c < k; ++c)
                scores[f * k + c] = 2.0 * as_double(alpha[f * k + c]) / size[c] - penalty[c];
    }
    if (weight != 1.0)
        for (int64_t i = 0; i < n * k; ++i) scores[i] *= weight;
    double most[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 8 <= n * k; i += 8)
        for (int lane = 0; lane < 8; ++lane) {
            const double height = scores[i + lane] < 0 ? -scores[i + lane] : scores[i + lane];
            most[lane] = most[lane] < height ? height : most[lane];
        }
    for (; i < n * k; ++i) most[0] = larger(most[0], scores[i] < 0 ? -scores[i] : scores[i]);
    for (int lane = 1; lane < 8; ++lane) most[0] = larger(most[0], most[lane]);
    return most[0];
}

void round_scores(const double* scores, int64_t n, double scale, int32_t* values) {
    // adding and taking away 1.5 * 2**52 leaves a double rounded to even, as rint does
    const double magic = 6755399441055744.0;
    for (int64_t i = 0; i < n; ++i) values[i] = (int32_t)((scores[i] * scale + magic) - magic);
}

void range_of(const int32_t* values, int64_t n, int32_t* low, int32_t* high) {
    int32_t a[16], b[16];
    for (int lane = 0; lane < 16; ++lane) a[lane] = b[lane] = values[0];
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int lane = 0; lane < 16; ++lane) {
            a[lane] = smaller(a[lane], values[i + lane]);
            b[lane] = larger(b[lane], values[i + lane]);
        }
    for (; i < n; ++i) a[0] = smaller(a[0], values[i]), b[0] = larger(b[0], values[i]);
    for (int lane = 1; lane < 16; ++lane) a[0] = smaller(a[0], a[lane]), b[0] = larger(b[0], b[lane]);
    *low = a[0], *high = b[0];
}

void narrow_rows(const int32_t* rows, int64_t n, int32_t k, double base, double step, int32_t top, double* worst,
                 uint8_t* out, int64_t stride) {
    const double inverse = 1.0 / step;
    if (k == 2) {  // thirty-two rows at a time
        int32_t level[64];
        double far[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (int64_t f = 0; f < n; f += 32) {
            const int m = 2 * (int)smaller<int64_t>(32, n - f);
            const auto at = [&](int i, int lane) {
                const double height = (double)rows[2 * f + i] - base;
                level[i] = smaller((int32_t)(height * inverse + 0.5), top);
                const double off = height - (double)level[i] * step, size = off < 0 ? -off : off;
                far[lane] = far[lane] < size ? size : far[lane];
            };
            int i = 0;
            for (; i + 8 <= m; i += 8)
                for (int lane = 0; lane < 8; ++lane) at(i + lane, lane);
            for (; i < m; ++i) at(i, i % 2);
            for (i = 0; i < m; ++i) out[(i % 2) * stride + f + i / 2] = (uint8_t)level[i];
        }
        for (int lane = 0; lane < 8; ++lane) worst[lane % 2] = larger(worst[lane % 2], far[lane]);
        return;
    }
    int32_t level[64];
    for (int64_t f = 0; f < n; ++f, rows += k)
        for (int32_t start = 0; start < k; start += 64) {
            const int32_t m = smaller(k - start, 64);
            for (int32_t c = 0; c < m; ++c) {
                const double height = (double)rows[start + c] - base;
                level[c] = smaller((int32_t)(height * inverse + 0.5), top);
                const double off = height - (double)level[c] * step, size = off < 0 ? -off : off;
                worst[start + c] = worst[start + c] < size ? size : worst[start + c];
            }
            for (int32_t c = 0; c < m; ++c) out[(start + c) * stride + f] = (uint8_t)level[c];
        }
}

template <int W, int R>
void change_columns(const int32_t* before, const int32_t* after, int64_t n, int32_t k, double scale, double* high,
                    double* low) {
    double most[W * R], least[W * R];
    for (int c = 0; c < W * R; ++c) most[c] = high[c % W], least[c] = low[c % W];
    const auto meet = [&](int count) {
        for (int c = 0; c < count; ++c) {
            const double change = (double)after[c] - (double)before[c] * scale;
            most[c] = most[c] > change ? most[c] : change;
            least[c] = least[c] < change ? least[c] : change;
        }
    };
    int64_t f = 0;
    for (; f + R <= n; f += R, before += R * k, after += R * k) meet(W * R);
    for (; f < n; ++f, before += k, after += k) meet(W);
    for (int c = 0; c < W * R; ++c) high[c % W] = larger(high[c % W], most[c]), low[c % W] = smaller(low[c % W], least[c]);
}

void change_rows(const int32_t* before, const int32_t* after, int64_t n, int32_t k, double scale, double* high,
                 double* low) {
    if (k == 2) return change_columns<2, 4>(before, after, n, k, scale, high, low);
    int32_t c = 0;
    for (; c + 8 <= k; c += 8) change_columns<8, 1>(before + c, after + c, n, k, scale, high + c, low + c);
    for (; c + 4 <= k; c += 4) change_columns<4, 1>(before + c, after + c, n, k, scale, high + c, low + c);
    for (; c < k; ++c) change_columns<1, 1>(before + c, after + c, n, k, scale, high + c, low + c);
}

}  // namespace
}  // namespace coassoc
