#include <cubepi/schema/validate.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <utility>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif
#include <valijson/adapters/boost_json_adapter.hpp>
#include <valijson/constraints/concrete_constraints.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <cubepi/core/error.hpp>
#include <cubepi/schema/detail/value_path.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate/schema_check.hpp>
#include <cubepi/schema/validate/schema_fill.hpp>
#include <cubepi/schema/validate/schema_lowering.hpp>
#include <cubepi/schema/validate/schema_pattern.hpp>
#include <cubepi/schema/validate/simple_schema.hpp>

namespace cubepi {
namespace {

constexpr std::size_t longest_matched_key = 1024;

// "pattern", by an expression that is compiled once and does not overflow the stack.
class PatternConstraint : public valijson::constraints::PolyConstraint {
public:
    explicit PatternConstraint(detail::SchemaPattern pattern) : pattern_(std::move(pattern)) {}

    bool validate(const valijson::adapters::Adapter& target,
                  const std::vector<std::string>& context,
                  valijson::ValidationResults* results) const override {
        if (!target.isString() || pattern_.found_in(target.asString())) return true;
        if (results) results->pushError(context, "does not match the pattern");
        return false;
    }

private:
    valijson::constraints::Constraint* cloneInto(void* memory) const override {
        return new (memory) PatternConstraint(*this);
    }
    std::size_t sizeOf() const override { return sizeof(PatternConstraint); }

    detail::SchemaPattern pattern_;
};

class PatternBuilder : public valijson::ConstraintBuilder {
public:
    valijson::constraints::Constraint* make(
        const valijson::adapters::Adapter& value) const override {
        return new PatternConstraint(detail::SchemaPattern(value.asString()));
    }
};

struct Compiled {
    valijson::Schema schema;
    bool has_pattern_properties = false;
};

std::unique_ptr<const Compiled> compile_lowered(const detail::LoweredSchema& lowered) {
    auto compiled = std::make_unique<Compiled>();
    compiled->has_pattern_properties = !lowered.pattern_properties.empty();
    try {
        for (const auto& expression : lowered.pattern_properties)
            const std::regex checked(expression);
        valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
        parser.addConstraintBuilder(detail::pattern_keyword, new PatternBuilder);
        parser.populateSchema(valijson::adapters::BoostJsonAdapter(lowered.schema),
                              compiled->schema);
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw Error(ErrorCode::invalid_argument,
                    std::string("the JSON Schema is not valid: ") + error.what());
    }
    return compiled;
}

// Values that valijson's adapter does not represent correctly.
struct Oddities {
    bool needs_copy = false;
    bool too_deep = false;
    bool long_key = false;
};

constexpr auto highest_signed =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

void look_over(Json& value, std::size_t depth, Oddities& found) {
    if (depth > max_json_depth) {
        found.too_deep = true;
        return;
    }
    if (value.is_uint64()) {
        const auto number = value.get_uint64();
        if (number <= highest_signed) {
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

// Returns a copy with substitutes for values that valijson's adapter does not support: integers above int64, and NUL
// characters, at which it ends a string.
Json with_stand_ins(Json value) {
    if (value.is_uint64()) {
        value = static_cast<std::int64_t>(highest_signed);
    } else if (auto* text = value.if_string()) {
        std::replace(text->begin(), text->end(), '\0', '\x01');
    } else if (auto* array = value.if_array()) {
        for (auto& item : *array) item = with_stand_ins(std::move(item));
    } else if (auto* object = value.if_object()) {
        for (auto& entry : *object) entry.value() = with_stand_ins(std::move(entry.value()));
    }
    return value;
}

SchemaIssue root_issue(std::string message) {
    return SchemaIssue{"<root>", "a value that fits the schema", "another", std::move(message)};
}

bool fits(const Compiled& compiled, const Json& value, const Oddities& oddities,
          std::string& problem) {
    try {
        valijson::Validator validator;
        if (!oddities.needs_copy) {
            const valijson::adapters::BoostJsonAdapter target(value);
            return validator.validate(compiled.schema, target, nullptr);
        }
        const Json copy = with_stand_ins(value);
        const valijson::adapters::BoostJsonAdapter target(copy);
        return validator.validate(compiled.schema, target, nullptr);
    } catch (const std::exception& error) {
        problem = error.what();
        return false;
    }
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

    const Compiled& full() {
        if (const auto* ready = compiled.load(std::memory_order_acquire)) return *ready;
        check();
        const std::lock_guard lock(mutex);
        if (!owner) {
            owner = compile_lowered(lowered);
            lowered = {};
            compiled.store(owner.get(), std::memory_order_release);
        }
        return *owner;
    }

    const Json source;
    std::mutex mutex;
    detail::LoweredSchema lowered;
    std::unique_ptr<const detail::SimpleSchema> simple;
    std::unique_ptr<const Compiled> owner;
    std::atomic<bool> checked{false};
    std::atomic<const Compiled*> compiled{nullptr};
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
    if (oddities.long_key && compiled.has_pattern_properties) {
        return {root_issue("has a field name longer than " + std::to_string(longest_matched_key) +
                           " bytes")};
    }
    detail::fill_value(state_->source, value);
    std::string problem;
    if (fits(compiled, value, oddities, problem)) return {};
    return explain(state_->source, value, problem);
}

}  // namespace cubepi
