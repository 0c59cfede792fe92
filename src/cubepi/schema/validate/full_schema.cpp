#include <cubepi/schema/validate/full_schema.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <regex>
#include <utility>
#include <vector>

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
#include <cubepi/schema/validate/schema_pattern.hpp>

namespace cubepi::detail {
namespace {

// "pattern", by an expression that is compiled once and does not overflow the stack.
class PatternConstraint : public valijson::constraints::PolyConstraint {
public:
    explicit PatternConstraint(SchemaPattern pattern) : pattern_(std::move(pattern)) {}

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

    SchemaPattern pattern_;
};

class PatternBuilder : public valijson::ConstraintBuilder {
public:
    valijson::constraints::Constraint* make(
        const valijson::adapters::Adapter& value) const override {
        return new PatternConstraint(SchemaPattern(value.asString()));
    }
};

constexpr auto highest_signed =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

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

}  // namespace

struct FullSchema::Impl {
    valijson::Schema schema;
    bool has_pattern_properties = false;
};

FullSchema::FullSchema(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FullSchema::~FullSchema() = default;

bool FullSchema::has_pattern_properties() const noexcept { return impl_->has_pattern_properties; }

std::unique_ptr<const FullSchema> FullSchema::compile(const LoweredSchema& lowered) {
    auto compiled = std::make_unique<Impl>();
    compiled->has_pattern_properties = !lowered.pattern_properties.empty();
    try {
        for (const auto& expression : lowered.pattern_properties)
            const std::regex checked(expression);
        valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
        parser.addConstraintBuilder(pattern_keyword, new PatternBuilder);
        parser.populateSchema(valijson::adapters::BoostJsonAdapter(lowered.schema),
                              compiled->schema);
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw Error(ErrorCode::invalid_argument,
                    std::string("the JSON Schema is not valid: ") + error.what());
    }
    return std::unique_ptr<const FullSchema>(new FullSchema(std::move(compiled)));
}

bool FullSchema::accepts(const Json& value, Copy copy, std::string& problem) const {
    try {
        valijson::Validator validator;
        if (copy == Copy::none) {
            const valijson::adapters::BoostJsonAdapter target(value);
            return validator.validate(impl_->schema, target, nullptr);
        }
        const Json replaced = with_stand_ins(value);
        const valijson::adapters::BoostJsonAdapter target(replaced);
        return validator.validate(impl_->schema, target, nullptr);
    } catch (const std::exception& error) {
        problem = error.what();
        return false;
    }
}

}  // namespace cubepi::detail
