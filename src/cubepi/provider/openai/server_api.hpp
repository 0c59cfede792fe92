#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>

// The server's side of OpenAI's two protocols: reads the requests of clients and writes answers and their chunks. No I/O.
// chat_server.cpp has Chat Completions, responses_server.cpp has Responses, server_requests.cpp what their requests share.
// docs/guides/providers/wire-formats.md has the design.

namespace cubepi::detail {

/// A request of a client that is not valid, or that asks for something that is not supported.
class OpenAIRequestError : public Error {
public:
    /// `member` is its path in the body: "messages[3].role"; empty: the body.
    OpenAIRequestError(std::string member, const std::string& message)
        : Error(ErrorCode::validation, message), member_(std::move(member)) {}
    const std::string& member() const noexcept { return member_; }

private:
    std::string member_;
};

/// A picture or a file in a message of a client.
struct OpenAIClientFile {
    std::string name = {};
    std::string type = {};     ///< "image/png"
    std::string content = {};  ///< base64; not checked
};

/// A call of a tool of the client, as a client repeats it or a writer writes it.
struct OpenAIClientCall {
    std::string id = {};  ///< `call_id` of Responses
    std::string name = {};
    std::string arguments = {};  ///< JSON; not checked
};

struct OpenAIClientMessage {
    bool is_answer = false;  ///< of the assistant
    std::string text = {};
    std::vector<OpenAIClientFile> files = {};
    std::vector<OpenAIClientCall> calls = {};  ///< of the assistant
    std::string output_of = {};  ///< the id of the call whose output this is; empty: it is none
};

/// A tool that the client executes. Tools of other kinds than functions are left out when a request is read.
struct OpenAIClientTool {
    std::string name = {};
    std::string description = {};
    JsonObject parameters = {};  ///< JSON Schema
};

/// The tools that the model may or must call first.
enum class OpenAIToolChoice : std::uint8_t {
    automatic,
    none,
    required,
    named,
};

/// The answer of a client to a question about a call of a tool (`mcp_approval_response`).
struct OpenAIClientApproval {
    std::string request = {};
    bool approves = false;
    std::string reason = {};
};

/// A request of a client, of either protocol.
struct OpenAIClientRequest {
    std::string model = {};
    std::string instructions =
        {};  ///< the texts of system and developer messages, and `instructions`
    /// The conversation; it ends with a message of the user or with the output of a call, unless there is an approval.
    std::vector<OpenAIClientMessage> messages = {};
    std::optional<OpenAIClientApproval> approval = {};
    std::string user = {};
    JsonObject metadata = {};  ///< its values are strings
    bool streams = false;
    bool includes_usage = false;  ///< Chat Completions: the last chunk of the stream has the usage
    std::vector<OpenAIClientTool> tools = {};
    OpenAIToolChoice tool_choice = OpenAIToolChoice::automatic;
    std::string chosen_tool = {};  ///< of the choice `named`
    bool parallel_calls = true;
    // Responses.
    bool in_background = false;
    bool stores = true;
    std::string previous_response = {};
    std::string compaction = {};  ///< `encrypted_content` of the conversation before `messages`
};

/// The limits of a request, in addition to that of its body.
inline constexpr std::size_t most_client_messages = 4000;
inline constexpr std::size_t most_client_parts = 64;  ///< of a message
inline constexpr std::size_t most_client_tools = 128;
inline constexpr std::size_t most_client_name = 200;     ///< bytes of names and ids
inline constexpr std::size_t most_client_call_id = 512;  ///< bytes of the id of a call

/// Reads the body of POST /chat/completions. Throws OpenAIRequestError. Settings of the model (`temperature`, `max_tokens`) are ignored;
/// what changes the form of the answer (`n`, `response_format`, `audio`) is refused.
OpenAIClientRequest read_openai_chat_request(std::string_view body);
/// Reads the body of POST /responses in the same way.
OpenAIClientRequest read_openai_responses_request(std::string_view body);
/// Reads the body of POST /responses/compact: the conversation may end with any message, and may be that of the previous response only.
OpenAIClientRequest read_openai_compact_request(std::string_view body);

/// Returns the body of a response with an error. Empty `code` and `member`: null.
JsonObject openai_error(unsigned status, std::string_view message, std::string_view code = {},
                        std::string_view member = {});

/// Identifies an answer to the client.
struct OpenAIReplyHead {
    std::string id = {};
    std::string model = {};
    std::int64_t created = 0;  ///< Unix seconds
};

/// The tokens of an answer.
struct OpenAIReplyUsage {
    std::int64_t input = 0;
    std::int64_t cached = 0;  ///< part of `input`
    std::int64_t output = 0;
    std::int64_t reasoning = 0;  ///< part of `output`
};

/// Writes an answer as a chat.completion, whole or in chunks.
class OpenAIChatWriter {
public:
    /// `includes_usage`: of the request (`stream_options`).
    explicit OpenAIChatWriter(OpenAIReplyHead head, bool includes_usage = false)
        : head_(std::move(head)), includes_usage_(includes_usage) {}

    /// Returns the whole answer, with the calls that were added. `finish` is a finish_reason: "stop".
    JsonObject completion(std::string_view text, std::string_view finish) const;
    /// Sets the usage of the answer before its end.
    void set_usage(const OpenAIReplyUsage& usage) { usage_ = usage; }

    // Each appends server-sent events. The first text or call begins the answer.
    void add_text(std::string_view text, std::string& out);
    /// Adds a call of a tool of the client.
    void add_call(const OpenAIClientCall& call, std::string& out);
    /// The last chunk and `[DONE]`.
    void finish(std::string_view finish, std::string& out);
    /// The answer has failed after its first chunk.
    void fail(std::string_view message, std::string& out);

private:
    void begin(std::string& out);
    JsonObject chunk(JsonArray choices) const;
    void append_delta(JsonObject delta, Json finish, std::string& out) const;

    OpenAIReplyHead head_;
    JsonArray calls_;
    std::optional<OpenAIReplyUsage> usage_;
    bool includes_usage_;
    bool has_begun_ = false;
};

/// The state of a response.
enum class OpenAIResponseStatus : std::uint8_t {
    queued,
    in_progress,
    completed,
    incomplete,
    failed,
    cancelled,
};

/// Writes an answer as a response: its object at any time, and its events. The sequence number of an event is its position among all
/// events of the writer.
class OpenAIResponsesWriter {
public:
    /// `request` has members of the response that repeat the request: `previous_response_id`, `store`, `background`, `metadata`.
    OpenAIResponsesWriter(OpenAIReplyHead head, JsonObject request)
        : head_(std::move(head)), request_(std::move(request)) {}

    // Each appends events to `out`, one per element; the caller may discard them.
    void begin(std::vector<std::string>& out);
    /// Adds a part of the text of the open message; opens one if there is none.
    void add_text(std::string_view text, std::vector<std::string>& out);
    /// Ends the open message, if there is one.
    void end_message(std::vector<std::string>& out);
    /// Adds a question about a call of a tool (`mcp_approval_request`).
    void add_approval(std::string_view id, std::string_view tool, const JsonObject& arguments,
                      std::vector<std::string>& out);
    /// Adds a call of a tool of the client (`function_call`).
    void add_call(const OpenAIClientCall& call, std::vector<std::string>& out);
    /// Sets the usage of the response before its end.
    void set_usage(const OpenAIReplyUsage& usage) { usage_ = usage; }
    /// Sets the time of the end of the response, in Unix seconds.
    void set_completed(std::int64_t seconds) { completed_ = seconds; }
    /// Ends the response. `reason`: why it is incomplete ("max_output_tokens"), or the text of its failure.
    void finish(OpenAIResponseStatus status, std::string_view reason,
                std::vector<std::string>& out);

    /// Sets the status of a response that has not ended.
    void set_status(OpenAIResponseStatus status) noexcept { status_ = status; }
    /// Returns the response as it is now.
    JsonObject response() const;
    /// Returns an event with the response as it is now, with a sequence number of the caller.
    std::string state_event(std::int64_t sequence) const;

private:
    void event(std::string_view type, JsonObject members, std::vector<std::string>& out);
    void item_event(std::string_view type, const JsonObject& item, std::vector<std::string>& out);
    JsonObject message_item(std::string_view status) const;
    JsonObject at_text() const;

    OpenAIReplyHead head_;
    JsonObject request_;
    OpenAIResponseStatus status_ = OpenAIResponseStatus::in_progress;
    JsonArray output_;
    std::optional<OpenAIReplyUsage> usage_;
    std::string text_;
    std::string reason_;
    std::int64_t sequence_ = 0;
    std::int64_t completed_ = 0;  // not known
    bool is_open_ = false;
};

}  // namespace cubepi::detail
