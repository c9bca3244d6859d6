#include "dispatch.h"

namespace coassoc {

const Level* levels() {
    static const Level found[kLevels] = {
        {"baseline", baseline_kernels(), true},
#if defined(COASSOC_HAS_AVX2)
        {"avx2", avx2_kernels(),
         __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")},
#else
        {"avx2", nullptr, false},
#endif
#if defined(COASSOC_HAS_AVX512)
        {"avx512", avx512_kernels(),
         __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vbmi")},
#else
        {"avx512", nullptr, false},
#endif
    };
    return found;
}

const Kernels* kernels_named(const std::string& name) {
    for (int i = 0; i < kLevels; ++i)
        if (name == levels()[i].name && levels()[i].kernels && levels()[i].runs_here) return levels()[i].kernels;
    return nullptr;
}

}  // namespace coassoc
