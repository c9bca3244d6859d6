#include "starts.h"

#include <algorithm>
#include <numeric>

#include "seeding.h"

namespace coassoc {
namespace {

struct Start {
    Rows* rows;
    Labelling* labelling;
    BitGenerator* random;
    char* seeds;
    int64_t n_seeds = 0;
    Passes passes;
};

bool run_start(Start& start, const int64_t* seeding_weights, const double* weights, int64_t m, int64_t limit) {
    Rows& rows = *start.rows;
    const int64_t k = start.labelling->k_, p = rows.shape_.p;
    bool placed = false;
    {
        Seeding seeding(rows, seeding_weights);  // its memory goes before the passes take theirs
        const bool even = std::all_of(weights, weights + p, [&](double weight) { return weight == weights[0]; });
        // the distances that seeds are chosen by say all that a first pass could
        placed = seeding.ranks() && even && weights[0] > 0 && k <= 256;
        if (placed) seeding.follow((uint8_t*)rows.room_for_bounds(*start.labelling));
        if (!seeding.choose_all(*start.random, k, m, start.seeds, start.n_seeds)) return false;
    }
    if (start.n_seeds < k) return true;
    if (!rows.passes(*start.labelling, weights, start.seeds, limit, start.passes, placed)) return false;
    start.labelling->release();
    return true;
}

// The token of this thread, for as long as a task of it runs.
struct UsingToken {
    const Token* before = current_token;
    explicit UsingToken(const Token* token) { current_token = token; }
    ~UsingToken() { current_token = before; }
};

}  // namespace

nb::list kmeans_starts(nb::list tasks, Vector<const int64_t> seeding_weights, Vector<const double> weights, int64_t m,
                       int64_t limit) {
    std::vector<Start> starts;
    int threads = 1;
    for (nb::handle task : tasks) {
        Rows& rows = nb::cast<Rows&>(task[0]);
        Labelling& labelling = nb::cast<Labelling&>(task[1]);
        auto seeds = nb::cast<AnyMatrixOut>(task[3]);
        if ((int64_t)seeds.shape(0) != labelling.k_ || (int64_t)seeds.shape(1) != rows.shape_.p ||
            seeds.dtype().bits != rows.view_.width * 8 || labelling.n_ != rows.view_.n ||
            (int64_t)weights.shape(0) != rows.shape_.p || (int64_t)seeding_weights.shape(0) != rows.shape_.p || m < 1)
            throw std::invalid_argument("the weights, the labelling or the seeds do not fit the rows");
        BitGenerator* random = (BitGenerator*)nb::cast<nb::capsule>(task[2]).data("BitGenerator");
        starts.push_back({&rows, &labelling, random, (char*)seeds.data(), 0, {}});
        threads = std::max(threads, rows.n_threads_);
    }
    // the largest come first: their passes take in the threads that run out of others
    std::vector<size_t> order(starts.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return starts[a].rows->view_.n > starts[b].rows->view_.n; });
    Token token;
    token.parent = current_token;
    released([&] {
        const UsingToken outer(&token);
        const bool finished = run_free(threads, (int64_t)starts.size(), [&](int64_t t, int) {
            const UsingToken inner(&token);
            if (!run_start(starts[order[(size_t)t]], seeding_weights.data(), weights.data(), m, limit))
                token.cancelled = true;  // Ctrl-C reaches one thread only
        });
        return finished && !token.cancelled;
    });
    nb::list out;
    for (const Start& start : starts)
        out.append(nb::make_tuple(start.n_seeds, start.passes.losses, (int)start.passes.stop));
    return out;
}

}  // namespace coassoc
