#include "dispatch.h"

#if defined(__x86_64__) || defined(_M_X64)
#define COASSOC_X86 1
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace coassoc {
namespace {

#if defined(COASSOC_X86)
void cpuid(unsigned leaf, unsigned sub, unsigned* out) {
#if defined(_MSC_VER)
    __cpuidex((int*)out, (int)leaf, (int)sub);
#else
    if (!__get_cpuid_count(leaf, sub, out, out + 1, out + 2, out + 3)) out[0] = out[1] = out[2] = out[3] = 0;
#endif
}

unsigned long long saved_state() {
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((unsigned long long)high << 32) | low;
#endif
}

bool bit(unsigned word, int at) { return (word >> at) & 1; }

void detect(bool* avx2, bool* avx512) {
    unsigned one[4], seven[4];
    cpuid(1, 0, one);
    cpuid(7, 0, seven);
    *avx2 = *avx512 = false;
    if (!bit(one[2], 27)) return;  // the system does not save wide registers
    const unsigned long long state = saved_state();
    const bool popcnt = bit(one[2], 23), bmi = bit(seven[1], 3) && bit(seven[1], 8), fma = bit(one[2], 12);
    *avx2 = (state & 0x6) == 0x6 && bit(one[2], 28) && bit(seven[1], 5) && fma && bmi && popcnt;
    const bool foundation = bit(seven[1], 16), dq = bit(seven[1], 17), bw = bit(seven[1], 30), vl = bit(seven[1], 31);
    const bool vbmi = bit(seven[2], 1);
    *avx512 = *avx2 && (state & 0xE6) == 0xE6 && foundation && dq && bw && vl && vbmi;
}
#else
void detect(bool* avx2, bool* avx512) { *avx2 = *avx512 = false; }
#endif


}  // namespace

const Level* levels() {
    struct Found {
        Level all[kLevels];
        Found() {
            bool avx2, avx512;
            detect(&avx2, &avx512);
            all[0] = {"baseline", baseline_kernels(), true};
#if defined(COASSOC_HAS_AVX2)
            all[1] = {"avx2", avx2_kernels(), avx2};
#else
            all[1] = {"avx2", nullptr, avx2};
#endif
#if defined(COASSOC_HAS_AVX512)
            all[2] = {"avx512", avx512_kernels(), avx512};
#else
            all[2] = {"avx512", nullptr, avx512};
#endif
        }
    };
    static const Found found;
    return found.all;
}

const Kernels& best_kernels() {
    const Kernels* best = nullptr;
    for (int i = 0; i < kLevels; ++i)
        if (levels()[i].kernels && levels()[i].runs_here) best = levels()[i].kernels;
    return *best;  // the baseline always is
}

}  // namespace coassoc
