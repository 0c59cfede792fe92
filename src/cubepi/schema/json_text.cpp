#include <cubepi/schema/json_text.hpp>

#include <string_view>

#include <cubepi/schema/json/write_json.hpp>

namespace cubepi {

namespace {

struct CompactJson {
    static constexpr std::string_view comma = ",";
    static constexpr std::string_view colon = ":";
    static void string(std::string& out, std::string_view text) {
        out += boost::json::serialize(boost::json::string_view(text));
    }
    static void number(std::string& out, double number) {
        detail::append_finite_number(out, number);
    }
};

}  // namespace

std::string json_text(const Json& value) {
    std::string out;
    detail::write_json<CompactJson>(out, value);
    return out;
}

std::string json_text(const JsonObject& value) {
    std::string out;
    detail::write_json<CompactJson>(out, value);
    return out;
}

}  // namespace cubepi
