#include "pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace coassoc {

thread_local const StopFlag* current_stop_flag = nullptr;
bool (*interrupt_requested)() = [] { return false; };

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kCheckInterval = std::chrono::milliseconds(50);

// Whether the user asked to stop; asked at most every 50 ms by each thread, since a call may consist of many short jobs.
bool should_interrupt() {
    thread_local auto checked = Clock::now();
    const auto now = Clock::now();
    if (now - checked < kCheckInterval) return false;
    checked = now;
    return interrupt_requested();
}

struct Job {
    const std::function<void(int64_t, int)>* task;
    int64_t n_tasks;
    std::atomic<int64_t> next{0};
    StopFlag stop;
    int helpers_wanted = 0, helpers_working = 0, slots = 1;  // the pool's mutex guards these
    std::mutex error_mutex;
    std::exception_ptr error;  // the first

    // Works on the job until no task is left; `after_each` is called after each task.
    template <class After>
    void work(int slot, After&& after_each) {
        const StopFlag* before = current_stop_flag;
        current_stop_flag = &stop;
        try {
            for (int64_t t; !stop.stopped() && (t = next++) < n_tasks;) {
                (*task)(t, slot);
                after_each();
            }
        } catch (...) {
            const std::lock_guard<std::mutex> lock(error_mutex);
            if (!error) error = std::current_exception();
            stop.raised = true;
        }
        current_stop_flag = before;
    }
};

struct Pool {
    std::mutex mutex;
    std::condition_variable work, done;
    std::deque<Job*> queue;  // jobs that want more helpers
    int workers = 0;

    void grow(int wanted) {  // mutex held
        for (; workers < wanted; ++workers) std::thread([this] { serve(); }).detach();
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            work.wait(lock, [this] { return !queue.empty(); });
            Job* job = queue.front();
            const int slot = job->slots++;
            ++job->helpers_working;
            if (--job->helpers_wanted == 0) queue.pop_front();
            lock.unlock();
            job->work(slot, [] {});
            lock.lock();
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

void run_tasks(int n_threads, int64_t n_tasks, const std::function<void(int64_t, int)>& task) {
    Job job;
    job.task = &task;
    job.n_tasks = n_tasks;
    job.stop.parent = current_stop_flag;
    job.helpers_wanted = (int)std::max<int64_t>(0, std::min<int64_t>(n_threads, n_tasks) - 1);
    Pool* shared = job.helpers_wanted > 0 ? &pool() : nullptr;
    if (shared) {
        const std::lock_guard<std::mutex> lock(shared->mutex);
        shared->grow(job.helpers_wanted);
        shared->queue.push_back(&job);
    }
    if (shared) shared->work.notify_all();

    const auto check = [&] {
        if (should_interrupt()) job.stop.raised = true;
    };
    check();
    job.work(0, check);
    if (shared) {
        std::unique_lock<std::mutex> lock(shared->mutex);
        const auto at = std::find(shared->queue.begin(), shared->queue.end(), &job);
        if (at != shared->queue.end()) shared->queue.erase(at);
        while (job.helpers_working > 0) {
            if (shared->done.wait_for(lock, kCheckInterval) == std::cv_status::timeout) {
                lock.unlock();
                check();
                lock.lock();
            }
        }
    }
    if (job.error) std::rethrow_exception(job.error);
    if (job.stop.stopped()) throw Interrupted();
}

void check_interrupt() {
    if ((current_stop_flag && current_stop_flag->stopped()) || should_interrupt()) throw Interrupted();
}

}  // namespace coassoc
