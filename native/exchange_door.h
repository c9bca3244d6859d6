#pragma once

#include <nanobind/nanobind.h>

namespace coassoc {

// adds propose_moves, settle_density and settle_agreement to the module
void bind_exchange(nanobind::module_& m);

}  // namespace coassoc
