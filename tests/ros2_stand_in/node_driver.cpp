// Drives the node from Python by messages; its main function has another name here.
#define main node_main
#include NODE_SOURCE
#undef main

namespace
{
std::shared_ptr<rclcpp::Node> node;

template<class Message>
void send(const std::string & topic, std::shared_ptr<Message> message)
{
  std::any_cast<std::shared_ptr<rclcpp::Subscription<Message>>>(rclcpp::topics.at(topic))->callback(message);
}
}  // namespace

extern "C" {

void start_node() {node = std::make_shared<NODE_CLASS>();}

// One reading in, the published efforts out; returns the number of messages that have been published.
int exchange(double time, int n, const char * const * names, const double * position, const double * velocity,
  const double * gyro, const double * accelerometer, double * efforts)
{
  rclcpp::Node::clock = time;
  auto imu = std::make_shared<sensor_msgs::msg::Imu>();
  imu->angular_velocity = {gyro[0], gyro[1], gyro[2]};
  imu->linear_acceleration = {accelerometer[0], accelerometer[1], accelerometer[2]};
  send("imu", imu);
  auto joints = std::make_shared<sensor_msgs::msg::JointState>();
  joints->header.stamp.sec = static_cast<int>(time);
  joints->header.stamp.nanosec = static_cast<unsigned int>((time - static_cast<int>(time)) * 1e9 + 0.5);
  joints->name.assign(names, names + n);
  joints->position.assign(position, position + n);
  joints->velocity.assign(velocity, velocity + n);
  send("joint_states", joints);
  using Publisher = rclcpp::Publisher<std_msgs::msg::Float64MultiArray>;
  const auto publisher = std::any_cast<std::shared_ptr<Publisher>>(rclcpp::topics.at("effort_controller/commands"));
  const auto & data = publisher->sent.back().data;
  std::copy(data.begin(), data.end(), efforts);
  return static_cast<int>(publisher->sent.size());
}

}  // extern "C"
