#include <cubepi/mcp/json_rpc.hpp>

#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

namespace {

[[noreturn]] void fail(const std::string& reason) {
    throw Error(ErrorCode::protocol, "invalid JSON-RPC message: " + reason);
}

bool is_id(const Json& value) { return value.is_string() || value.is_int64() || value.is_uint64(); }

void read_call(RpcMessage& message, JsonObject& object) {
    const Json* id = object.if_contains("id");
    if (id && !is_id(*id)) fail("`id` must be a text or an integer");
    message.kind = id ? RpcMessage::Kind::request : RpcMessage::Kind::notification;
    if (id) message.id = *id;
    message.method = detail::text_member(object, "method");
    Json* params = object.if_contains("params");
    if (!params) return;
    // Lists of parameters are valid in JSON-RPC, but not in this protocol.
    if (!params->is_object()) fail("`params` must be an object");
    message.has_params = true;
    message.params = std::move(params->get_object());
}

void read_response(RpcMessage& message, JsonObject& object) {
    Json* result = object.if_contains("result");
    const Json* error = object.if_contains("error");
    if ((result != nullptr) == (error != nullptr))
        fail("it has neither a method, nor exactly one of `result` and `error`");
    const Json* id = object.if_contains("id");
    if (id && is_id(*id)) message.id = *id;
    if (result) {
        if (message.id.is_null()) fail("a result needs the `id` of its request");
        if (!result->is_object()) fail("`result` must be an object");
        message.kind = RpcMessage::Kind::result;
        message.result = std::move(result->get_object());
        return;
    }
    const JsonObject* members = error->if_object();
    if (!members) fail("`error` must be an object");
    message.kind = RpcMessage::Kind::error;
    const auto code = detail::integer_member(*members, "code");
    if (!code || *code < INT32_MIN || *code > INT32_MAX) fail("`error.code` must be an integer");
    message.code = static_cast<int>(*code);
    message.text = detail::text_member(*members, "message");
    if (const Json* data = members->if_contains("data")) message.data = *data;
}

}  // namespace

RpcMessage rpc_request(std::int64_t id, std::string method, JsonObject params) {
    RpcMessage message = rpc_notification(std::move(method), std::move(params));
    message.kind = RpcMessage::Kind::request;
    message.id = id;
    return message;
}

RpcMessage rpc_notification(std::string method, JsonObject params) {
    RpcMessage message;
    message.method = std::move(method);
    message.has_params = !params.empty();
    message.params = std::move(params);
    return message;
}

RpcMessage rpc_result(Json id, JsonObject result) {
    RpcMessage message;
    message.kind = RpcMessage::Kind::result;
    message.id = std::move(id);
    message.result = std::move(result);
    return message;
}

RpcMessage rpc_error(Json id, int code, std::string text, Json data) {
    RpcMessage message;
    message.kind = RpcMessage::Kind::error;
    message.id = std::move(id);
    message.code = code;
    message.text = std::move(text);
    message.data = std::move(data);
    return message;
}

std::string rpc_text(const RpcMessage& message) {
    JsonObject object;
    object["jsonrpc"] = "2.0";
    switch (message.kind) {
        case RpcMessage::Kind::request: object["id"] = message.id; [[fallthrough]];
        case RpcMessage::Kind::notification:
            object["method"] = message.method;
            if (message.has_params || !message.params.empty()) object["params"] = message.params;
            break;
        case RpcMessage::Kind::result:
            object["id"] = message.id;
            object["result"] = message.result;
            break;
        case RpcMessage::Kind::error: {
            object["id"] = message.id;
            JsonObject error;
            error["code"] = message.code;
            error["message"] = message.text;
            if (!message.data.is_null()) error["data"] = message.data;
            object["error"] = std::move(error);
            break;
        }
    }
    return json_text(object);
}

RpcMessage read_rpc_message(Json json) {
    JsonObject* object = json.if_object();
    if (!object) fail("it must be an object");
    if (detail::string_member(*object, "jsonrpc") != "2.0") fail("`jsonrpc` must be \"2.0\"");
    RpcMessage message;
    if (const Json* method = object->if_contains("method")) {
        if (!method->is_string()) fail("`method` must be a text");
        read_call(message, *object);
    } else {
        read_response(message, *object);
    }
    return message;
}

RpcMessage read_rpc_message(std::string_view text) { return read_rpc_message(parse_json(text)); }

std::vector<RpcMessage> read_rpc_messages(std::string_view text, std::size_t max_batch) {
    Json json = parse_json(text);
    std::vector<RpcMessage> messages;
    JsonArray* batch = json.if_array();
    if (!batch) {
        messages.push_back(read_rpc_message(std::move(json)));
        return messages;
    }
    if (batch->size() > max_batch) {
        fail("the batch has " + std::to_string(batch->size()) + " messages; the limit is " +
             std::to_string(max_batch));
    }
    for (Json& one : *batch) {
        try {
            messages.push_back(read_rpc_message(std::move(one)));
        } catch (const Error&) {
            break;
        }
    }
    if (messages.empty()) fail("the batch does not begin with a valid message");
    return messages;
}

void RpcLineReader::feed(std::string_view bytes) {
    if (start_ > 0) {
        buffer_.erase(0, start_);
        searched_ -= start_;
        start_ = 0;
    }
    buffer_.append(bytes);
    const bool ends = bytes.find('\n') != std::string_view::npos;
    if (!ends && buffer_.size() > max_line_) {
        throw Error(ErrorCode::too_large,
                    "a message has more than " + std::to_string(max_line_) + " bytes");
    }
}

std::optional<std::string_view> RpcLineReader::next() {
    while (true) {
        const std::size_t end = buffer_.find('\n', searched_);
        if (end == std::string::npos) {
            searched_ = buffer_.size();
            return std::nullopt;
        }
        std::string_view line(buffer_.data() + start_, end - start_);
        start_ = end + 1;
        searched_ = start_;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.size() > max_line_) {
            throw Error(ErrorCode::too_large,
                        "a message has more than " + std::to_string(max_line_) + " bytes");
        }
        if (!line.empty()) return line;
    }
}

}  // namespace cubepi
