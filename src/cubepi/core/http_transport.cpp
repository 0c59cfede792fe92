#include <cubepi/core/http_transport.hpp>

#include <algorithm>

namespace cubepi {

namespace {

char lower(char letter) noexcept {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool same_name(std::string_view left, std::string_view right) noexcept {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

bool is_http_token(std::string_view text) noexcept {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return c > 0x20 && c < 0x7F &&
               std::string_view("\"(),/:;<=>?@[\\]{}").find(static_cast<char>(c)) ==
                   std::string_view::npos;
    });
}

bool is_http_field_value(std::string_view text) noexcept {
    using namespace std::string_view_literals;
    return text.find_first_of("\r\n\0"sv) == std::string_view::npos;
}

void HttpHeaders::set(std::string name, std::string value) {
    remove(name);
    add(std::move(name), std::move(value));
}

void HttpHeaders::remove(std::string_view name) {
    std::erase_if(fields_, [name](const HttpHeader& field) { return same_name(field.name, name); });
}

const std::string* HttpHeaders::find(std::string_view name) const noexcept {
    for (const HttpHeader& field : fields_) {
        if (same_name(field.name, name)) return &field.value;
    }
    return nullptr;
}

std::string_view HttpHeaders::get(std::string_view name) const noexcept {
    const std::string* value = find(name);
    return value ? std::string_view(*value) : std::string_view();
}

}  // namespace cubepi
