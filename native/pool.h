// A small pool of threads over numbered tasks. The thread that starts a job works on it too, and checks every 50 ms
// whether the user pressed Ctrl-C. Waiting threads sleep: spinning threads stall each other on a shared machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

namespace coassoc {

// Thrown out of a job that was stopped early.
struct Interrupted : std::exception {
    const char* what() const noexcept override { return "stopped by another thread"; }
};

// Stops every job that was started under it, or under a flag whose parent it is.
struct StopFlag {
    std::atomic<bool> raised{false};
    const StopFlag* parent = nullptr;

    bool stopped() const {
        for (const StopFlag* flag = this; flag; flag = flag->parent)
            if (flag->raised.load(std::memory_order_relaxed)) return true;
        return false;
    }
};

// The flag that jobs started by this thread obey, or null. A task runs under the flag of its job.
extern thread_local const StopFlag* current_stop_flag;

// Whether to stop, asked by the thread that started a job. The bindings set it.
extern bool (*interrupt_requested)();

// Calls task(number, slot) for the numbers 0 .. n_tasks - 1, each once, in order; slot < n_threads names the thread.
// Throws Interrupted when the job was stopped, else the first exception of a task. Any thread may call this, also
// from within a task.
void run_tasks(int n_threads, int64_t n_tasks, const std::function<void(int64_t, int)>& task);

// Throws Interrupted when this thread's work is to stop. Loops outside of a job call it now and then.
void check_interrupt();

}  // namespace coassoc
