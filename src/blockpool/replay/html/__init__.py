"""Reports as one HTML file that needs nothing else. Drawing needs the extra `report`."""
