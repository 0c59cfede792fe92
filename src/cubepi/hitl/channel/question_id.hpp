#pragma once

#include <cstddef>
#include <map>
#include <string>

#include <cubepi/agent/hitl_channel.hpp>

namespace cubepi::detail {

/// Assigns question ids as CubePi does (D61): the tool call id for `approve`, and for `confirm` if one is given; otherwise
/// a digest of the question and a counter of equal questions. Not thread-safe.
class QuestionIds {
public:
    std::string next(const HitlPayload& payload, const HitlOptions& options);

private:
    std::map<std::string, std::size_t> asked_;  // by digest
};

}  // namespace cubepi::detail
