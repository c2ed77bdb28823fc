"""The device mesh, collectives of searches, and the entity table split over all devices."""
