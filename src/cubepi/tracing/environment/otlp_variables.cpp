#include <cubepi/tracing/environment/otlp_variables.hpp>

#include <cstdint>
#include <optional>
#include <utility>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/tracing/environment/key_values.hpp>

namespace cubepi::detail {

namespace {

constexpr const char* prefix = "OTEL_EXPORTER_OTLP_";

/// Returns true for an http or https URL with a host.
bool is_url(std::string_view text) {
    const std::size_t colon = text.find("://");
    if (colon == std::string_view::npos) return false;
    const std::string scheme = lower_case(text.substr(0, colon));
    if (scheme != "http" && scheme != "https") return false;
    const std::string_view rest = text.substr(colon + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    const std::string_view host = authority.substr(authority.rfind('@') + 1);  // npos + 1 is 0
    return !host.empty() && host.front() != ':' &&
           text.find_first_of(" \t\r\n") == std::string_view::npos;
}

/// The variables of OTLP for one signal. Those of the signal precede those of all signals.
class OtlpVariables {
public:
    OtlpVariables(VariableReader& reader, const std::string& signal)
        : reader_(reader), signal_(signal), data_(lower_case(signal)) {}

    /// Returns true if a URL is configured, valid or not.
    bool has_endpoint() const { return text("ENDPOINT").has_value(); }

    /// Returns nothing if the variables do not allow an exporter.
    std::optional<OtlpOptions> read() {
        OtlpOptions options;
        if (!read_protocol(options) || !read_endpoint(options)) return std::nullopt;
        read_headers(options);
        options.gzip = setting(
            "COMPRESSION", word_variable<bool>({{"none", false}, {"gzip", true}}, options.gzip));
        options.timeout = setting("TIMEOUT", timeout_variable(options.timeout));
        options.ca_file = text("CERTIFICATE").value_or("");
        warn_of_unsupported();
        return options;
    }

private:
    std::string of_signal(const char* name) const { return prefix + signal_ + "_" + name; }
    static std::string of_all(const char* name) { return std::string(prefix) + name; }

    template <class T>
    T setting(const char* name, const VariableType<T>& type) {
        return reader_.read({of_signal(name), of_all(name)}, type);
    }
    /// Returns the name of the variable that counts; nothing if none is set.
    std::optional<std::string> set_name(const char* name) const {
        if (reader_.text(of_signal(name))) return of_signal(name);
        if (reader_.text(of_all(name))) return of_all(name);
        return std::nullopt;
    }
    std::optional<std::string> text(const char* name) const {
        const std::optional<std::string> variable = set_name(name);
        return variable ? reader_.text(*variable) : std::nullopt;
    }

    bool read_protocol(OtlpOptions& options);
    bool read_endpoint(OtlpOptions& options);
    void read_headers(OtlpOptions& options);
    void warn_of_unsupported();

    VariableReader& reader_;
    const std::string signal_;
    const std::string data_;  // for messages
};

bool OtlpVariables::read_protocol(OtlpOptions& options) {
    enum class Protocol : std::uint8_t { grpc, http_protobuf, http_json };
    VariableType<Protocol> type =
        word_variable<Protocol>({{"http/protobuf", Protocol::http_protobuf},
                                 {"http/json", Protocol::http_json},
                                 {"grpc", Protocol::grpc}},
                                Protocol::http_protobuf);
    type.expected = "http/protobuf or http/json";
    const Protocol protocol = setting("PROTOCOL", type);
    if (protocol == Protocol::grpc) {
        reader_.warn(set_name("PROTOCOL").value_or(of_all("PROTOCOL")),
                     "OTLP over gRPC is not supported; no " + data_ +
                         " are sent. Set it to http/protobuf, and the endpoint to the collector's "
                         "port for HTTP (4318 by default).");
        return false;
    }
    options.protocol =
        protocol == Protocol::http_json ? OtlpProtocol::http_json : OtlpProtocol::http_protobuf;
    return true;
}

/// The value is not repeated in notices: a URL may contain a password.
bool OtlpVariables::read_endpoint(OtlpOptions& options) {
    constexpr const char* expected = "the value is not an http:// or https:// URL; ";
    const std::optional<std::string> own = reader_.text(of_signal("ENDPOINT"));
    const std::optional<std::string> base = reader_.text(of_all("ENDPOINT"));
    const bool base_counts = base && is_url(*base);
    if (own && is_url(*own)) {
        options.url = *own;
        return true;
    }
    const std::string none = "no " + data_ + " are sent by OTLP.";
    if (own) {
        reader_.warn(of_signal("ENDPOINT"),
                     expected + (base_counts ? of_all("ENDPOINT") + " is used." : none));
    }
    if (base && !base_counts) reader_.warn(of_all("ENDPOINT"), expected + none);
    if (base_counts)
        options.url = signal_ == "TRACES" ? otlp_traces_url(*base) : otlp_metrics_url(*base);
    return base_counts || (!own && !base);
}

/// Neither values nor names that are not valid are repeated in notices: the text may be a secret with a missing "name=".
void OtlpVariables::read_headers(OtlpOptions& options) {
    const std::optional<std::string> variable = set_name("HEADERS");
    if (!variable) return;
    const std::string list = reader_.text(*variable).value_or("");
    std::size_t number = 0;
    for (const KeyValue& entry : key_values(list)) {
        ++number;
        std::optional<std::string> value;
        if (entry.value && is_http_token(entry.key)) value = percent_decoded(*entry.value);
        if (value && is_http_field_value(*value)) {
            options.headers.emplace_back(std::string(entry.key), std::move(*value));
            continue;
        }
        reader_.warn(*variable, "entry " + std::to_string(number) +
                                    " is not a name=value pair of an HTTP header with a "
                                    "percent-encoded value; this header is not sent.");
    }
}

void OtlpVariables::warn_of_unsupported() {
    for (const char* name : {"CLIENT_CERTIFICATE", "CLIENT_KEY"}) {
        if (const std::optional<std::string> variable = set_name(name))
            reader_.warn(*variable, "client certificates are not supported; none is sent.");
    }
    if (signal_ != "METRICS") return;
    const std::string temporality = of_signal("TEMPORALITY_PREFERENCE");
    const std::optional<std::string> value = reader_.text(temporality);
    if (value && lower_case(*value) != "cumulative") {
        reader_.warn(temporality, VariableReader::quoted(*value) +
                                      " is not supported; the temporality is cumulative.");
    }
}

/// Reads the list of exporters. Returns nothing if it names none that is known.
std::optional<OtelSignal> read_exporters(VariableReader& reader, const std::string& signal) {
    const std::string variable = "OTEL_" + signal + "_EXPORTER";
    const std::string list = reader.text(variable).value_or("");
    OtelSignal chosen;
    bool none = false;
    for (const KeyValue& entry : key_values(list)) {
        const std::string name = lower_case(entry.key);
        if (name == "none") {
            none = true;
        } else if (name == "otlp") {
            chosen.otlp = true;
        } else if (name == "console") {
            chosen.console = true;
        } else {
            reader.warn(variable, VariableReader::quoted(entry.key) +
                                      " is not one of otlp, console, none; it is ignored.");
        }
    }
    if (none) return OtelSignal();
    if (!chosen.exported()) return std::nullopt;
    return chosen;
}

}  // namespace

OtelSignal read_signal(VariableReader& reader, const std::string& signal) {
    OtlpVariables otlp(reader, signal);
    OtelSignal result;
    if (const std::optional<OtelSignal> chosen = read_exporters(reader, signal)) {
        result = *chosen;
    } else {
        result.otlp = otlp.has_endpoint();
    }
    if (!result.otlp) return result;
    std::optional<OtlpOptions> options = otlp.read();
    result.otlp = options.has_value();
    if (options) result.options = std::move(*options);
    return result;
}

}  // namespace cubepi::detail
