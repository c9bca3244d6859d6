#include "pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace coassoc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(50);
// A pass over few rows is a handful of jobs in a tenth of a millisecond: who has just worked stays awake that long.
constexpr auto kAwake = std::chrono::microseconds(100);

inline void breathe() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

// Whether `ready` came true within kAwake.
template <class Ready>
bool soon(Ready&& ready) {
    const auto start = Clock::now();
    do {
        for (int i = 0; i < 32; ++i) {
            if (ready()) return true;
            breathe();
        }
    } while (Clock::now() - start < kAwake);
    return false;
}

struct Job {
    const std::function<void(int64_t, int)>* task;
    int64_t n_tasks;
    std::atomic<int64_t> next{0};
    std::atomic<bool> stop{false};
    std::atomic<int> helpers_working{0};  // changed under the pool's mutex, which guards what follows
    int helpers_wanted = 0;
    int slots = 1;
    std::exception_ptr error;
};

struct Pool {
    std::mutex mutex;
    std::condition_variable work, done;
    std::deque<Job*> queue;
    std::atomic<int> waiting{0};  // jobs in the queue
    int workers = 0;

    void grow(int wanted) {  // mutex held
        for (; workers < wanted; ++workers) std::thread([this] { serve(); }).detach();
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            if (queue.empty()) {
                lock.unlock();
                soon([this] { return waiting.load(std::memory_order_relaxed) > 0; });
                lock.lock();
            }
            work.wait(lock, [this] { return !queue.empty(); });
            Job* job = queue.front();
            const int slot = job->slots++;
            ++job->helpers_working;
            if (--job->helpers_wanted == 0) queue.pop_front(), --waiting;
            lock.unlock();
            std::exception_ptr error;
            try {
                for (int64_t t; !job->stop.load(std::memory_order_relaxed) && (t = job->next++) < job->n_tasks;)
                    (*job->task)(t, slot);
            } catch (...) {
                error = std::current_exception();
                job->stop = true;
            }
            lock.lock();
            if (error && !job->error) job->error = error;
            if (--job->helpers_working == 0) done.notify_all();
        }
    }
};

// Never destroyed: workers may outlive static destructors. A forked child starts with a pool of its own.
std::atomic<Pool*> the_pool{nullptr};

Pool& pool() {
    static std::mutex making;
    Pool* found = the_pool.load();
    if (found) return *found;
    std::lock_guard<std::mutex> lock(making);
    found = the_pool.load();
    if (!found) {
#if !defined(_WIN32)
        static bool watching = false;
        if (!watching) pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); });
        watching = true;
#endif
        found = new Pool;
        the_pool.store(found);
    }
    return *found;
}

}  // namespace

bool run_tasks(const Run& run, int64_t n_tasks, const std::function<void(int64_t, int)>& task) {
    Job job;
    job.task = &task;
    job.n_tasks = n_tasks;
    const int helpers = (int)std::min<int64_t>(run.n_threads, n_tasks) - 1;
    Pool* shared = helpers > 0 ? &pool() : nullptr;
    if (shared) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->grow(helpers);
        job.helpers_wanted = helpers;
        shared->queue.push_back(&job);
        ++shared->waiting;
    }
    if (shared) {
        if (helpers == 1) shared->work.notify_one();
        else shared->work.notify_all();
    }

    thread_local auto looked = Clock::now();  // of this thread: a hundred short runs in one call must not go unheard
    auto look = [&] {
        if (run.token && run.token->stopped()) job.stop = true;
        const auto now = Clock::now();
        if (now - looked < kLook) return;
        looked = now;
        if (run.interrupted && !job.stop && run.interrupted()) job.stop = true;
    };
    std::exception_ptr error;
    try {
        look();
        for (int64_t t; !job.stop.load(std::memory_order_relaxed) && (t = job.next++) < n_tasks;) {
            task(t, 0);
            look();
        }
    } catch (...) {
        error = std::current_exception();
        job.stop = true;
    }
    if (shared) {
        std::unique_lock<std::mutex> lock(shared->mutex);
        if (job.helpers_wanted > 0) {
            for (auto at = shared->queue.begin(); at != shared->queue.end(); ++at)
                if (*at == &job) {
                    shared->queue.erase(at);
                    --shared->waiting;
                    break;
                }
        }
        if (job.helpers_working > 0) {  // mostly at the end of its last task
            lock.unlock();
            soon([&] { return job.helpers_working.load() == 0; });
            lock.lock();
        }
        while (job.helpers_working > 0) {
            if (shared->done.wait_for(lock, kLook) == std::cv_status::timeout) {
                lock.unlock();
                look();
                lock.lock();
            }
        }
        if (!error) error = job.error;
    }
    if (error) std::rethrow_exception(error);
    return !job.stop;
}

}  // namespace coassoc
