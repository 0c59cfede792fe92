#pragma once

#include <optional>
#include <string>

namespace cubepi {

/// The version of stored tables or files, and the oldest version of programs that may use them (D208). A later program that
/// changes them only by additions raises `version` and leaves `readable_from`, so that both can share the store.
struct FormatVersion {
    int version = 0;
    int readable_from = 0;  ///< at most `version`

    /// Returns true if a program that knows the version `known` may read and write them as they are. Older ones it has to
    /// migrate first.
    bool is_usable_by(int known) const noexcept {
        return known == version || (known < version && known >= readable_from);
    }
    /// Returns true if a program that knows the version `known` must not use them.
    bool is_refused_by(int known) const noexcept {
        return known < version && known < readable_from;
    }

    friend bool operator==(const FormatVersion&, const FormatVersion&) = default;
};

/// Returns true if there is nothing to create or to migrate.
inline bool is_usable(const std::optional<FormatVersion>& found, int known) noexcept {
    return found && found->is_usable_by(known);
}

/// Returns the end of an error about what is_refused_by(): "of version 9, ...; update the program".
inline std::string refusal_text(FormatVersion found, int known) {
    const std::string least =
        found.readable_from < found.version
            ? "which needs a program that knows version " + std::to_string(found.readable_from)
            : std::string("which is newer than this program knows");
    return "of version " + std::to_string(found.version) + ", " + least + " (it knows " +
           std::to_string(known) + "); update the program";
}

}  // namespace cubepi
