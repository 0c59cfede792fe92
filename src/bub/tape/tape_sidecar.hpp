#pragma once

#include <string>
#include <string_view>

namespace bub {

/// A tape beside each tape that a plugin keeps things on which are no part of the conversation. It is in the tape's forks,
/// and is archived and emptied with it.
struct TapeSidecar {
    std::string name = {};
};

/// The name of a tape's sidecar: OWNER__sidecar__NAME.
std::string sidecar_tape_name(std::string_view owner, std::string_view sidecar);

}  // namespace bub
