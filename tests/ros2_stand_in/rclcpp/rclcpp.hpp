// Stand-in for rclcpp of ROS 2, see README.md.
#pragma once
#include <any>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace builtin_interfaces::msg
{
struct Time
{
  std::int32_t sec = 0;
  std::uint32_t nanosec = 0;
};
}  // namespace builtin_interfaces::msg

namespace rclcpp
{

class Time
{
public:
  explicit Time(double seconds = 0.0)
  : seconds_(seconds) {}
  Time(const builtin_interfaces::msg::Time & stamp)  // NOLINT: as in rclcpp
  : seconds_(stamp.sec + 1e-9 * stamp.nanosec) {}
  double seconds() const {return seconds_;}

private:
  double seconds_;
};

class Duration
{
public:
  explicit Duration(double seconds)
  : seconds_(seconds) {}
  double seconds() const {return seconds_;}

private:
  double seconds_;
};

struct QoS
{
  QoS(std::size_t = 1) {}  // NOLINT: as in rclcpp
};
struct SystemDefaultsQoS : QoS {};
struct SensorDataQoS : QoS {};

class Logger {};

#define RCLCPP_ERROR(logger, ...) \
  do { \
    (void)(logger); \
    std::fprintf(stderr, __VA_ARGS__); \
    std::fputc('\n', stderr); \
  } while (0)

class Parameter
{
public:
  explicit Parameter(std::any value = {})
  : value_(value) {}
  std::string as_string() const {return std::any_cast<std::string>(value_);}
  double as_double() const {return std::any_cast<double>(value_);}

private:
  std::any value_;
};

template<class Message>
class Subscription
{
public:
  using SharedPtr = std::shared_ptr<Subscription>;
  std::function<void(std::shared_ptr<Message>)> callback;
};

template<class Message>
class Publisher
{
public:
  using SharedPtr = std::shared_ptr<Publisher>;
  void publish(const Message & message) {sent.push_back(message);}
  std::vector<Message> sent;
};

// Topics of this process, by name.
inline std::map<std::string, std::any> topics;

class Node
{
public:
  explicit Node(const std::string &) {}
  virtual ~Node() = default;

  template<class Message, class Callback>
  std::shared_ptr<Subscription<Message>> create_subscription(
    const std::string & topic, const QoS &, Callback && callback)
  {
    auto out = std::make_shared<Subscription<Message>>();
    out->callback = callback;
    topics[topic] = out;
    return out;
  }
  template<class Message>
  std::shared_ptr<Publisher<Message>> create_publisher(const std::string & topic, const QoS &)
  {
    auto out = std::make_shared<Publisher<Message>>();
    topics[topic] = out;
    return out;
  }
  template<class Value>
  Value declare_parameter(const std::string & name, const Value & value)
  {
    parameters[name] = Parameter(value);
    return value;
  }
  Parameter get_parameter(const std::string & name) const {return parameters.at(name);}
  Logger get_logger() const {return {};}
  Time now() const {return Time(clock);}

  static inline double clock = 0.0;
  std::map<std::string, Parameter> parameters;
};

inline void init(int, char **) {}
inline void spin(std::shared_ptr<Node>) {}
inline void shutdown() {}

}  // namespace rclcpp
