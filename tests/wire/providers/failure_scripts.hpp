#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <cubepi/provider/provider.hpp>

// What an endpoint of each wire format sends until it fails, and how a request of that format must look.

namespace cubepi::wire {

enum class Format : std::uint8_t { anthropic, chat, responses };
constexpr Format all_formats[] = {Format::anthropic, Format::chat, Format::responses};
const char* name_of(Format format);

/// How far an answer has come when it fails.
enum class Phase : std::uint8_t {
    before_headers,
    after_headers,   ///< no event yet
    before_content,  ///< the message has begun and says nothing
    mid_text,
    mid_arguments,  ///< in the arguments of a tool call, after the text
    at_end,         ///< all but the event or marker that ends the answer
};
constexpr Phase all_phases[] = {Phase::before_headers, Phase::after_headers, Phase::before_content,
                                Phase::mid_text,       Phase::mid_arguments, Phase::at_end};
const char* name_of(Phase phase);

/// The answer fails with this text and the call add({"a": 1}), as far as it comes.
constexpr const char* partial_text = "Let me see.";
/// What the endpoint says when all is well.
constexpr const char* whole_text = "Fine.";

/// The timeouts of a call; zero: off.
struct TableTimeouts {
    std::chrono::nanoseconds connect{0};
    std::chrono::nanoseconds first_byte{0};
    std::chrono::nanoseconds idle{0};
    std::chrono::nanoseconds total{0};
};
constexpr const char* table_key = "sk-of-the-table";
BoundModel model_at(Format format, const std::string& host_url, const TableTimeouts& timeouts);

/// The server-sent events up to that phase.
std::string events_until(Format format, Phase phase);
/// A whole answer that says `whole_text`.
std::string whole_answer(Format format);
/// An error inside the stream: an overload, or a request that is refused.
std::string error_event(Format format, bool overload);
/// An event of the text whose JSON breaks off.
std::string cut_event(Format format);
/// The body that goes with an error status.
std::string error_body(Format format, int status);
/// True when nothing is missing from what was sent until Phase::at_end: what happens then does not matter.
bool is_whole_at_end(Format format);
/// True when the call of Phase::at_end is known to be complete before the answer is.
bool ends_calls(Format format);

/// Each call of the request has its result, at once and once; its arguments are an object.
void expect_legal_request(Format format, const std::string& body);

}  // namespace cubepi::wire
