// Which instruction sets this build has kernels for, and which this CPU can run.
#pragma once

#include <string>

#include "kernels.h"

namespace coassoc {

struct Level {
    const char* name;
    const Kernels* kernels;  // null: not compiled in
    bool runs_here;          // whether the CPU and the operating system support it
};

constexpr int kLevels = 3;

// From slowest to fastest: "baseline", "avx2", "avx512" (F, BW, DQ, VL and VBMI).
const Level* levels();

// The kernels of one level; null when they are not compiled in or cannot run here.
const Kernels* kernels_named(const std::string& name);

}  // namespace coassoc
