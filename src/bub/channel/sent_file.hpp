#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <bub/envelope.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

/// Interface of a channel that sends outputs of kind `file`. Without it, such an output is not sent.
class SendsFiles {
public:
    virtual ~SendsFiles() = default;
};

/// A file of a workspace that is sent to a user.
struct SentFile {
    std::string name = {};
    std::string bytes = {};
};

/// Reads the file of an output of kind `file` (file_key), on a worker thread: a regular file below the workspace, without following
/// links. Returns nothing for another output. Throws Error: not_found, permission_denied, invalid_argument, too_large (more than
/// `limit` bytes), io.
Task<std::optional<SentFile>> read_sent_file(std::shared_ptr<const cubepi::Runtime> runtime,
                                             Envelope output, std::size_t limit);

}  // namespace bub
