#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

// JSON-RPC 2.0 (https://www.jsonrpc.org/specification), as the Model Context Protocol uses it. Nothing here does I/O.

namespace cubepi {

/// One message of either side.
struct RpcMessage {
    enum class Kind : std::uint8_t { request, notification, result, error };

    Kind kind = Kind::notification;
    Json id = {};  ///< a number or a text; null for notifications, and for errors without a request
    std::string method = {};  ///< of requests and notifications
    JsonObject params = {};   ///< of requests and notifications; without `params` it is empty
    bool has_params = false;  ///< false: the message has no `params`
    JsonObject result = {};   ///< of results
    int code = 0;             ///< of errors
    std::string text = {};    ///< of errors: `message`
    Json data = {};           ///< of errors
};

RpcMessage rpc_request(std::int64_t id, std::string method, JsonObject params);
RpcMessage rpc_notification(std::string method, JsonObject params);
RpcMessage rpc_result(Json id, JsonObject result);
RpcMessage rpc_error(Json id, int code, std::string text, Json data = {});

/// Returns the text of a message, on one line.
std::string rpc_text(const RpcMessage& message);

/// Reads a message. Throws Error(parse) for text that is not JSON, and Error(protocol) for JSON that is not a message.
RpcMessage read_rpc_message(std::string_view text);
RpcMessage read_rpc_message(Json json);
/// Reads a message or a batch, which 2025-03-26 allows. Throws like read_rpc_message(), and Error(protocol) for a batch of more than
/// `max_batch` messages. A batch is read up to its first invalid message, because each one costs an exception.
std::vector<RpcMessage> read_rpc_messages(std::string_view text, std::size_t max_batch);

/// Splits a stream into lines (the framing of the transport over standard streams). Memory is limited by `max_line`.
class RpcLineReader {
public:
    explicit RpcLineReader(std::size_t max_line) : max_line_(max_line) {}

    /// Appends bytes of the stream. Throws Error(too_large) if a line without its end is longer than the limit.
    void feed(std::string_view bytes);
    /// Returns the next complete line without its end, or nothing. The view is valid until the next feed().
    std::optional<std::string_view> next();

private:
    const std::size_t max_line_;
    std::string buffer_;
    std::size_t start_ = 0;     ///< of the next line
    std::size_t searched_ = 0;  ///< no line ends before
};

}  // namespace cubepi
