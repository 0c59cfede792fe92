#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <bub/tape/session_tape_store.hpp>

namespace bub {

/// The outcome of copy_tape().
struct CopiedTape {
    std::size_t entries = 0;  ///< that were added; 0: the target had all of them
    bool state = false;       ///< the side state was changed
    std::size_t media = 0;
};

/// Copies a tape to another store, without its sidecars: the entries with their ids, dates and meta, the side state, and the media whose
/// SHA-256 the entries contain. The source is not changed. A copy that is repeated adds what is new: if the target is a beginning of
/// the source, the rest is appended, all together. So is one that was interrupted.
///
/// An empty side state replaces no other one, unless `replace`: earlier versions stored it after the entries, so that a copy which was
/// interrupted may be the source when its tape is moved back.
///
/// Throws Error(invalid_state) if the target has other or more entries, or the same ones with another side state (neither is empty), unless
/// `replace`; CheckpointerLockTimeoutError while a turn is in progress on either tape; Error(not_found) if there is no such tape;
/// cubepi::StaleAppendError if another process changes the target meanwhile; and what the stores throw.
Task<CopiedTape> copy_tape(std::shared_ptr<SessionTapeStore> from,
                           std::shared_ptr<SessionTapeStore> to, std::string tape,
                           bool replace = false);

}  // namespace bub
