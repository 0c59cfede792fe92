#include "wire_check.hpp"

#include <utility>

#include <cubepi/schema/parse_json.hpp>

#include "compare.hpp"
#include "reading.hpp"

namespace conformance {

namespace {

/// Arguments of calls are compared as JSON, not as text.
void parse_arguments(Json& value) {
    if (JsonArray* array = value.if_array()) {
        for (Json& item : *array) parse_arguments(item);
    }
    JsonObject* object = value.if_object();
    if (!object) return;
    for (auto& [key, item] : *object) {
        if (key != "arguments" || !item.is_string()) {
            parse_arguments(item);
            continue;
        }
        cubepi::JsonTextError error;
        Json parsed = cubepi::parse_json(item.get_string(), error);
        if (!error) item = std::move(parsed);
    }
}

/// Additional keys of ours are allowed in the message and its blocks.
void keep_keys_of(Json& got, const Json& want) {
    JsonObject* object = got.if_object();
    if (!object || !want.is_object()) return;
    JsonObject common;
    for (auto& [key, value] : *object) {
        if (want.get_object().contains(key)) common[key] = value;
    }
    *object = std::move(common);
}

/// Missing usage equals zeros, and so does a missing number.
void fill_usage(Json& message) {
    Json& usage = message.get_object()["usage"];
    if (!usage.is_object()) usage = JsonObject();
    for (const char* key :
         {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}) {
        usage.get_object().emplace(key, 0);
    }
    usage.get_object().erase("reasoning_tokens");
}

/// Error texts are ours, except that of an abort.
void mask_error_message(Json& object) {
    Json* text = object.as_object().if_contains("error_message");
    if (text && text->is_string() && *text != "Request was aborted") *text = "<error>";
}

class WireCheck {
public:
    WireCheck(const JsonObject& file, const WireAnswer& answer, std::string label)
        : file_(file), answer_(answer), label_(std::move(label)) {
        if (const Json* paths = file.if_contains("defect_paths")) {
            for (const Json& path : as_array(*paths, "defect_paths")) {
                defects_.push_back(as_text(path, "defect_paths"));
            }
        }
    }

    std::vector<std::string> perform() {
        if (has_defect("")) return std::move(found_);
        check_request();
        check_message();
        check_events();
        return std::move(found_);
    }

private:
    bool has_defect(std::string_view path) const {
        for (const std::string& defect : defects_) {
            if (defect == path) return true;
        }
        return false;
    }
    void remove_defects(Json& value) const {
        for (const std::string& defect : defects_) {
            if (defect.starts_with('/')) remove_at(value, defect);
        }
    }
    void compare(const Json& want, const Json& got, const std::string& at) {
        for (std::string& difference : differences(want, got, at)) {
            found_.push_back(label_ + std::move(difference));
        }
    }
    bool is_request_case() const { return file_.contains("expect_request"); }

    void remove_defective_arguments(JsonObject& event) const {
        const Json* index = event.if_contains("content_index");
        if (!index) return;
        const std::string block = std::to_string(as_number(*index, "content_index"));
        if (has_defect("/content/" + block + "/arguments")) event.erase("arguments");
    }

    void check_request();
    void check_message();
    void check_events();

    const JsonObject& file_;
    const WireAnswer& answer_;
    std::string label_;
    std::vector<std::string> defects_;
    std::vector<std::string> found_;
};

void WireCheck::check_request() {
    if (!has_defect("#requests")) {
        const std::int64_t want = number_or(file_, "requests_made", 1);
        compare(Json(want), Json(answer_.asked.size()), "/requests_made");
    }
    if (!is_request_case() || answer_.asked.empty()) return;
    const JsonObject& want = as_object(file_.at("expect_request"), "expect_request");
    const HttpAsked& got = answer_.asked.front();
    compare(want.at("method"), Json(got.method), "/expect_request/method");
    compare(want.at("path"), Json(got.path), "/expect_request/path");
    for (const auto& [name, value] : as_object(want.at("headers"), "headers")) {
        if (name == "accept") continue;
        const auto header = got.headers.find(std::string(name));
        compare(value, header == got.headers.end() ? Json(nullptr) : Json(header->second),
                "/expect_request/headers/" + std::string(name));
    }
    Json want_body = want.at("body");
    Json got_body = cubepi::parse_json(got.body);
    for (Json* body : {&want_body, &got_body}) {
        parse_arguments(*body);
        remove_defects(*body);
    }
    compare(want_body, got_body, "/expect_request/body");
}

void WireCheck::check_message() {
    Json want = file_.at("expect_message");
    Json got = answer_.message;
    fill_usage(want);
    fill_usage(got);
    const Json full = want;
    keep_keys_of(got, full);
    const JsonArray& blocks = want.at("content").as_array();
    JsonArray& own = got.at("content").as_array();
    for (std::size_t i = 0; i < own.size() && i < blocks.size(); ++i) {
        keep_keys_of(own[i], blocks[i]);
    }
    for (Json* message : {&want, &got}) {
        mask_error_message(*message);
        if (!is_request_case()) remove_defects(*message);
    }
    compare(want, got, "/expect_message");
}

void WireCheck::check_events() {
    if (has_defect("#events")) return;
    JsonArray types;
    JsonArray events = answer_.events;
    for (Json& event : events) {
        types.push_back(event.at("type"));
        mask_error_message(event);
    }
    compare(file_.at("expect_events"), types, "/expect_events");
    const Json* details = file_.if_contains("expect_event_details");
    if (!details) return;
    JsonArray want = details->as_array();
    for (Json& event : want) mask_error_message(event);
    // A pointer into the message also applies to the snapshots of the events.
    for (JsonArray* list : {&want, &events}) {
        for (Json& event : *list) remove_defective_arguments(event.as_object());
    }
    compare(want, events, "/expect_event_details");
}

}  // namespace

std::vector<std::string> wire_differences(const JsonObject& file, const WireAnswer& answer,
                                          std::string label) {
    return WireCheck(file, answer, std::move(label)).perform();
}

}  // namespace conformance
