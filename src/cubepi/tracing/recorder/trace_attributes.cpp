#include <cubepi/tracing/recorder/trace_attributes.hpp>

#include <optional>
#include <string>
#include <utility>

namespace cubepi::detail {

namespace {

/// Returns the value as an attribute; empty if it has no form as one.
std::optional<AttributeValue> attribute_of(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::string: return SharedString(std::string_view(value.get_string()));
        case boost::json::kind::bool_: return value.get_bool();
        case boost::json::kind::int64: return value.get_int64();
        case boost::json::kind::double_: return value.get_double();
        case boost::json::kind::uint64: return static_cast<double>(value.get_uint64());
        case boost::json::kind::array: {
            std::vector<SharedString> list;
            for (const Json& item : value.get_array()) {
                list.emplace_back(item.is_string() ? std::string(item.get_string())
                                                   : boost::json::serialize(item));
            }
            return list;
        }
        case boost::json::kind::object: return SharedString(boost::json::serialize(value));
        case boost::json::kind::null: break;
    }
    return std::nullopt;
}

}  // namespace

std::vector<Attribute> attributes_of(const TraceContext& context) {
    std::vector<Attribute> found;
    if (!context.tags.empty()) {
        std::vector<SharedString> tags(context.tags.begin(), context.tags.end());
        found.push_back(Attribute{"cubepi.tags", std::move(tags)});
    }
    for (const auto& [key, value] : context.metadata) {
        std::optional<AttributeValue> attribute = attribute_of(value);
        if (!attribute) continue;
        found.push_back(Attribute{"cubepi.metadata." + std::string(key), std::move(*attribute)});
    }
    return found;
}

}  // namespace cubepi::detail
