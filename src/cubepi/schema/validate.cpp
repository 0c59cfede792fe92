#include <cubepi/schema/validate.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/detail/value_path.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate/full_schema.hpp>
#include <cubepi/schema/validate/schema_check.hpp>
#include <cubepi/schema/validate/schema_fill.hpp>
#include <cubepi/schema/validate/schema_lowering.hpp>
#include <cubepi/schema/validate/simple_schema.hpp>

namespace cubepi {
namespace {

constexpr std::size_t longest_matched_key = 1024;

// Values that valijson's adapter does not represent correctly.
struct Oddities {
    bool needs_copy = false;
    bool too_deep = false;
    bool long_key = false;
};

void look_over(Json& value, std::size_t depth, Oddities& found) {
    if (depth > max_json_depth) {
        found.too_deep = true;
        return;
    }
    if (value.is_uint64()) {
        const auto number = value.get_uint64();
        if (std::in_range<std::int64_t>(number)) {
            value = static_cast<std::int64_t>(number);
        } else {
            found.needs_copy = true;
        }
    } else if (const auto* text = value.if_string()) {
        if (text->find('\0') != boost::json::string::npos) found.needs_copy = true;
    } else if (auto* array = value.if_array()) {
        for (auto& item : *array) look_over(item, depth + 1, found);
    } else if (auto* object = value.if_object()) {
        for (auto& entry : *object) {
            if (entry.key().size() > longest_matched_key) found.long_key = true;
            look_over(entry.value(), depth + 1, found);
        }
    }
}

SchemaIssue root_issue(std::string message) {
    return SchemaIssue{"<root>", "a value that fits the schema", "another", std::move(message)};
}

std::vector<SchemaIssue> explain(const Json& schema, const Json& value,
                                 const std::string& problem) {
    std::vector<SchemaIssue> issues;
    detail::SchemaChecker(schema).check(schema, value, detail::ValuePath{}, issues);
    std::vector<SchemaIssue> unique;
    for (auto& issue : issues) {
        if (std::find(unique.begin(), unique.end(), issue) == unique.end())
            unique.push_back(std::move(issue));
    }
    if (unique.empty()) {
        unique.push_back(root_issue(problem.empty() ? "does not fit the schema"
                                                    : "cannot be checked: " + problem));
    }
    return unique;
}

}  // namespace

// The rewritten schema and the fast check are created on first use; valijson's form only if a value needs it.
struct JsonSchema::State {
    explicit State(Json given) : source(std::move(given)) {}

    const detail::SimpleSchema* check() {
        if (!checked.load(std::memory_order_acquire)) {
            const std::lock_guard lock(mutex);
            if (!checked.load(std::memory_order_relaxed)) {
                lowered = detail::lower_schema(source);
                simple = detail::SimpleSchema::compile(source);
                checked.store(true, std::memory_order_release);
            }
        }
        return simple.get();
    }

    const detail::FullSchema& full() {
        if (const auto* ready = compiled.load(std::memory_order_acquire)) return *ready;
        check();
        const std::lock_guard lock(mutex);
        if (!owner) {
            owner = detail::FullSchema::compile(lowered);
            lowered = {};
            compiled.store(owner.get(), std::memory_order_release);
        }
        return *owner;
    }

    const Json source;
    std::mutex mutex;
    detail::LoweredSchema lowered;
    std::unique_ptr<const detail::SimpleSchema> simple;
    std::unique_ptr<const detail::FullSchema> owner;
    std::atomic<bool> checked{false};
    std::atomic<const detail::FullSchema*> compiled{nullptr};
};

JsonSchema::JsonSchema(Json schema) : state_(std::make_shared<State>(std::move(schema))) {}
JsonSchema::~JsonSchema() = default;

const Json& JsonSchema::source() const noexcept { return state_->source; }
std::shared_ptr<const Json> JsonSchema::shared_source() const noexcept {
    return std::shared_ptr<const Json>(state_, &state_->source);
}

void JsonSchema::compile() const { state_->full(); }

std::vector<SchemaIssue> JsonSchema::validate(Json& value) const {
    if (const auto* simple = state_->check()) {
        bool lacks_default = false;
        if (simple->accepts(value, lacks_default)) {
            if (lacks_default) detail::fill_value(state_->source, value);
            return {};
        }
    }
    const auto& compiled = state_->full();
    Oddities oddities;
    look_over(value, 0, oddities);
    if (oddities.too_deep) {
        return {root_issue("nested deeper than " + std::to_string(max_json_depth) + " levels")};
    }
    if (oddities.long_key && compiled.has_pattern_properties()) {
        return {root_issue("has a field name longer than " + std::to_string(longest_matched_key) +
                           " bytes")};
    }
    detail::fill_value(state_->source, value);
    std::string problem;
    const detail::FullSchema::Copy copy =
        oddities.needs_copy ? detail::FullSchema::Copy::needed : detail::FullSchema::Copy::none;
    if (compiled.accepts(value, copy, problem)) return {};
    return explain(state_->source, value, problem);
}

}  // namespace cubepi
