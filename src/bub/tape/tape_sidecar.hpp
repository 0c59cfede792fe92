#pragma once

#include <string>
#include <string_view>

namespace bub {

/// An additional tape per session tape, in which a plugin stores data that is not part of the conversation. It is
/// archived and emptied with its tape, but is not part of the tape's forks: its entries are stored at once.
struct TapeSidecar {
    std::string name = {};
};

/// Returns the name of a tape's sidecar: OWNER__sidecar__NAME.
std::string sidecar_tape_name(std::string_view owner, std::string_view sidecar);
/// Returns true for the name of a sidecar.
bool is_sidecar_name(std::string_view tape);

}  // namespace bub
