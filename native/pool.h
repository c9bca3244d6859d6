// A small pool of threads over numbered tasks. No OpenMP, and no spinning but for a moment after work: the caller
// works too, and looks up now and then so that Ctrl-C gets through.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace coassoc {

// Says "stop" to every job that was given it, or one that stems from it.
struct Token {
    std::atomic<bool> cancelled{false};
    const Token* parent = nullptr;

    bool stopped() const {
        for (const Token* token = this; token; token = token->parent)
            if (token->cancelled.load(std::memory_order_relaxed)) return true;
        return false;
    }
};

struct Run {
    int n_threads = 1;
    const Token* token = nullptr;     // may be null
    std::function<bool()> interrupted;  // asked by the caller's thread every 50 ms; true stops the job
};

// Calls task(number, slot) for numbers 0 .. n_tasks - 1, slot < n_threads naming the thread. Numbers are handed out
// in order, each once. Returns false when the job was stopped early. Any thread may call this at any time.
bool run_tasks(const Run& run, int64_t n_tasks, const std::function<void(int64_t, int)>& task);

}  // namespace coassoc
