#include <cubepi/agent/run/repeated_calls.hpp>

#include <algorithm>
#include <variant>

#include <boost/container_hash/hash.hpp>
#include <boost/json/value.hpp>

namespace cubepi::detail {

namespace {

/// The order of the arguments does not count.
std::uint64_t hash_of(const ToolCall& call, const AgentToolResult& result) {
    std::size_t hash = std::hash<std::string>()(call.name.str());
    boost::hash_combine(hash, std::hash<Json>()(Json(call.arguments)));
    if (const Json* raw = call.extra.find("raw_arguments"))
        boost::hash_combine(hash, std::hash<Json>()(*raw));
    boost::hash_combine(hash, result.is_error.value_or(false));
    boost::hash_combine(hash, std::hash<std::string>()(result.text()));
    for (const Content& block : result.content) {
        if (const auto* image = std::get_if<ImageContent>(&block))
            boost::hash_combine(hash, std::hash<std::string>()(image->source));
    }
    return hash;
}

}  // namespace

std::string RepeatedCalls::note(const ToolCall& call, const AgentToolResult& result) {
    const auto [at, is_new] = counts_.try_emplace(hash_of(call, result));
    Count& count = at->second;
    if (is_new) ++epoch_;
    // After something new, a known call is made for the second time at least.
    const std::size_t calls = is_new ? 1 : count.epoch == epoch_ ? count.calls + 1 : 2;
    count.calls = calls;
    count.epoch = epoch_;
    // A single call repeats nothing.
    const std::size_t limit = std::max<std::size_t>(limit_, 2);
    if (calls >= limit && !reached_) {
        reached_.emplace("max_repeated_calls",
                         "the run reached its limit max_repeated_calls (" + std::to_string(limit) +
                             "): the tool '" + call.name.str() +
                             "' was called again and again with the same arguments and the same "
                             "result; prompt again to continue");
    }
    if (calls != std::max<std::size_t>(limit / 2, 2) || calls >= limit) return {};
    return "\n[This call was made " + std::to_string(calls) +
           " times with the same arguments and the same result. Making it again will not help: do "
           "something else, or say what is missing. The run ends at " +
           std::to_string(limit) + " times.]";
}

}  // namespace cubepi::detail
