  // Memory of the controller.
  QD_NAME_wbc wbc_{};

  void reset_controller()
  {
    QD_NAME_wbc_initialize(&wbc_);
  }

  // All feet are in stance.
  std::array<unsigned char, n_feet> stance_feet() const
  {
    std::array<unsigned char, n_feet> standing;
    standing.fill(1);
    return standing;
  }

  void compute_torques(const double * q, const double * v, const std::array<double, 3> &, double * tau)
  {
    QD_NAME_wbc_tick(&wbc_, q, v, nullptr, tau);
  }
