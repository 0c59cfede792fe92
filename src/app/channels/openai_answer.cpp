#include "openai_answer.hpp"

#include <utility>

#include <bub/envelope.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi::app {

namespace {

using bub::HttpReplyPart;
using cubepi::detail::object_member;
using cubepi::detail::OpenAIResponseStatus;
using cubepi::detail::text_member;

std::string error_text(const JsonObject& reply) {
    const JsonObject* const error = object_member(reply, "error");
    return error ? text_member(*error, "message") : std::string();
}

std::optional<cubepi::detail::OpenAIAnswerUsage> usage_of(const JsonObject& reply) {
    std::optional<cubepi::detail::OpenAIAnswerUsage> usage;
    const JsonObject* const used = object_member(reply, bub::usage_key);
    if (!used) return usage;
    const auto count = [used](std::string_view name) {
        return cubepi::detail::integer_member(*used, name).value_or(0);
    };
    usage.emplace();
    usage->input = count("input");
    usage->cached = count("cached");
    usage->output = count("output");
    usage->reasoning = count("reasoning");
    return usage;
}

OpenAIAnswerEnd end_of(const JsonObject& reply) {
    OpenAIAnswerEnd end;
    end.usage = usage_of(reply);
    const Json* const ok = reply.if_contains("ok");
    if (ok && *ok == Json(false)) {
        end.reason = error_text(reply);
        end.status = end.reason == bub::stopped_text ? OpenAIResponseStatus::cancelled
                                                     : OpenAIResponseStatus::failed;
        return end;
    }
    const std::string finish = text_member(reply, "finish");
    if (finish == "cut_off" || finish == "context_window") {
        end.status = OpenAIResponseStatus::incomplete;
        end.reason = "max_output_tokens";
        end.finish = "length";
    } else if (finish == "refused") {
        end.status = OpenAIResponseStatus::incomplete;
        end.reason = "content_filter";
        end.finish = "content_filter";
    }
    return end;
}

}  // namespace

void OpenAIAnswer::take(const HttpReplyPart& part, OpenAIAnswerSink& sink) {
    switch (part.kind) {
        case HttpReplyPart::Kind::text:
            open_ += part.text;
            sink.text(part.text);
            break;
        case HttpReplyPart::Kind::restart:
            end_message(sink);
            problems_.clear();
            has_calls_ = false;
            sink.restarted();
            break;
        case HttpReplyPart::Kind::reasoning: sink.reasoning(part.text); break;
        case HttpReplyPart::Kind::event: sink.event(*part.event); break;
        case HttpReplyPart::Kind::output: take_output(part.value, sink); break;
        case HttpReplyPart::Kind::done: take_end(part.value, sink); break;
        case HttpReplyPart::Kind::pending:
            ended_ = true;
            sink.postponed();
            break;
    }
}

void OpenAIAnswer::take_reply(const JsonObject& reply, OpenAIAnswerSink& sink) {
    if (const Json* const outputs = reply.if_contains("outputs"); outputs && outputs->is_array()) {
        for (const Json& output : outputs->get_array())
            if (output.is_object()) take_output(output.get_object(), sink);
    }
    take_end(reply, sink);
}

void OpenAIAnswer::take_output(const JsonObject& output, OpenAIAnswerSink& sink) {
    const std::string text = text_member(output, "text");
    if (text_member(output, "kind") == bub::envelope_kind::error) {
        problems_.push_back(text);
        return;
    }
    const JsonObject* const question = object_member(output, "question");
    if (question && take_question(*question, sink)) return;
    const JsonObject* const file = object_member(output, "file");
    take_text(
        file ? text + (text.empty() ? "" : "\n") + "File: " + text_member(*file, "name") : text,
        sink);
}

/// Returns false for a question that is a text to the client.
bool OpenAIAnswer::take_question(const JsonObject& question, OpenAIAnswerSink& sink) {
    end_message(sink);
    const std::optional<bub::ClientCall> call = bub::client_call_of(question);
    if (!call) return sink.question(question);
    has_calls_ = true;
    sink.call(text_member(question, "request_id"), *call);
    return true;
}

/// Ends the open message, if there is one.
void OpenAIAnswer::end_message(OpenAIAnswerSink& sink) {
    if (!open_.empty()) sink.end_message();
    open_.clear();
}

void OpenAIAnswer::take_text(std::string_view text, OpenAIAnswerSink& sink) {
    if (!open_.empty() && text.starts_with(open_)) {
        text.remove_prefix(open_.size());
    } else if (!open_.empty() && std::string_view(open_).ends_with(text)) {
        text = {};
    } else if (!open_.empty()) {
        sink.end_message();
    }
    if (!text.empty()) sink.text(text);
    sink.end_message();
    open_.clear();
}

void OpenAIAnswer::take_end(const JsonObject& reply, OpenAIAnswerSink& sink) {
    OpenAIAnswerEnd end = end_of(reply);
    if (has_calls_ && end.status == OpenAIResponseStatus::completed) end.finish = "tool_calls";
    end_message(sink);
    // The other ends say why by themselves.
    if (end.status == OpenAIResponseStatus::completed)
        for (const std::string& problem : std::exchange(problems_, {})) take_text(problem, sink);
    ended_ = true;
    sink.end(end);
}

}  // namespace cubepi::app
