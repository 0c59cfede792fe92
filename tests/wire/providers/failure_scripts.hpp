#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <cubepi/provider/provider.hpp>

// The data that an endpoint of each wire format sends until it fails, and the checks of requests in that format.

namespace cubepi::wire {

enum class Format : std::uint8_t { anthropic, chat, responses, gemini };
constexpr Format all_formats[] = {Format::anthropic, Format::chat, Format::responses,
                                  Format::gemini};
const char* name_of(Format format);

/// The progress of an answer when it fails.
enum class Phase : std::uint8_t {
    before_headers,
    after_headers,   ///< no event yet
    before_content,  ///< the message has begun and is empty
    mid_text,
    mid_arguments,  ///< in the arguments of a tool call, after the text
    at_end,         ///< everything except the event or marker that ends the answer
};
constexpr Phase all_phases[] = {Phase::before_headers, Phase::after_headers, Phase::before_content,
                                Phase::mid_text,       Phase::mid_arguments, Phase::at_end};
const char* name_of(Phase phase);

/// The text of the failing answer; its call is add({"a": 1}).
constexpr const char* partial_text = "Let me see.";
/// The text of the successful answer.
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
/// A complete answer with `whole_text`.
std::string whole_answer(Format format);
/// An error inside the stream: an overload or a refused request.
std::string error_event(Format format, bool overload);
/// An event of the text with truncated JSON.
std::string cut_event(Format format);
/// The body of an error status.
std::string error_body(Format format, int status);
/// True if the answer is complete at Phase::at_end: a failure after it does not matter.
bool is_whole_at_end(Format format);
/// True if the arguments of a call arrive in pieces.
bool splits_calls(Format format);
/// True if the call of Phase::at_end is known to be complete before the answer is.
bool ends_calls(Format format);

/// Checks that each call of the request is followed by exactly one result, and that its arguments are an object.
void expect_legal_request(Format format, const std::string& body);

}  // namespace cubepi::wire
